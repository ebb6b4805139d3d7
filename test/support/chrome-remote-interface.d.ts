/** What the tests use of a package that has no types of its own. */
declare module 'chrome-remote-interface' {
  interface Client {
    send(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>;
    close(): Promise<void>;
  }
  export default function connect(options: { target: string; local: boolean }): Promise<Client>;
}
