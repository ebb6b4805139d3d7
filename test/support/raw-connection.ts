import { connect, type Socket } from 'node:net';

import { waitUntil } from './waiting.ts';

/** One HTTP answer, as it came over the wire. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** A connection on which a test sends whatever it likes. */
export class RawConnection {
  readonly socket: Socket;
  #received = '';
  #isEnded = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received += chunk.toString('latin1');
    });
    for (const event of ['end', 'close'] as const) {
      socket.on(event, () => {
        this.#isEnded = true;
      });
    }
    // A connection that is cut is what many tests wait for.
    socket.on('error', () => undefined);
  }

  /** Connects to a port of this computer. */
  static async open(port: number, host = '127.0.0.1'): Promise<RawConnection> {
    const socket = connect({ port, host, allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject);
    });
    return new RawConnection(socket);
  }

  /** What came and was not taken as an answer yet. */
  get received(): string {
    return this.#received;
  }

  /** True when the server has ended its side. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Sends bytes. */
  send(bytes: string | Buffer): this {
    this.socket.write(bytes);
    return this;
  }

  /** Waits until the server has ended its side; returns what came before. */
  async ended(ms?: number): Promise<string> {
    await waitUntil('the end of a connection', () => (this.#isEnded ? true : undefined), ms);
    return this.#received;
  }

  /** Waits for the next whole answer, whose length must be announced, and takes it. */
  answer(ms?: number): Promise<RawAnswer> {
    return waitUntil('an HTTP answer', () => this.#takeAnswer(), ms);
  }

  /** Waits for a text in what came. */
  async sees(text: string, ms?: number): Promise<void> {
    await waitUntil(`"${text}" on a connection`, () => (this.#received.includes(text) ? true : undefined), ms);
  }

  /** Gives the connection up. */
  close(): void {
    this.socket.destroy();
  }

  #takeAnswer(): RawAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end === -1) return undefined;
    const [statusLine = '', ...lines] = this.#received.slice(0, end).split('\r\n');
    const headers = new Map(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const start = end + 4;
    const length = Number(headers.get('content-length') ?? 0);
    if (this.#received.length < start + length) return undefined;
    const body = this.#received.slice(start, start + length);
    this.#received = this.#received.slice(start + length);
    return { status: Number(statusLine.split(' ')[1]), headers, body };
  }
}

/** The code of the refusal in an answer's body. */
export function reasonOf(answer: { readonly body: string }): unknown {
  const { error } = JSON.parse(answer.body) as { error: { data: { reason: unknown } } };
  return error.data.reason;
}
