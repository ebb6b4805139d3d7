// This file must be readable by old versions of Node, so that they can say what is missing (docs/conventions.md).
const needed = [20, 19];
const found = process.versions.node.split('.').map(Number);
const isOld = Number(found[0]) < Number(needed[0]) || (found[0] === needed[0] && Number(found[1]) < Number(needed[1]));

if (isOld) {
  process.stderr.write(
    'cloakbrowser-mcp needs Node ' +
      needed.join('.') +
      ' or later, but runs on ' +
      process.versions.node +
      '. ' +
      'Install a newer Node, or name its full path as the command in the configuration of your client.\n',
  );
  process.exitCode = 1;
} else {
  void import('./cli/run.ts').then((program) => program.run(process.argv.slice(2)));
}
