// @ts-check
/**
 * The least that a program between client and upstream can do: it passes bytes on and reads nothing. Measured beside
 * the bridge as the floor: node bench/pipe-relay.mjs UPSTREAM [ARGUMENT...].
 */
import { spawn } from 'node:child_process';
import { Socket } from 'node:net';

const child = spawn(process.execPath, process.argv.slice(2), { stdio: ['pipe', 'pipe', 'inherit'] });
process.stdin.pipe(child.stdin);
// Node's own stdout writes to a pipe synchronously; a socket on the descriptor does not stop the program meanwhile.
child.stdout.pipe(new Socket({ fd: 1, readable: false, writable: true }));
child.on('exit', () => process.exit());
