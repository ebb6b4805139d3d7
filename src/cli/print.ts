/** Prints a text on standard output and waits until it is handed over; a reader that went away is no failure. */
export function printText(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(`${text}\n`, () => {
      resolve();
    });
  });
}
