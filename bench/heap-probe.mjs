// @ts-check
/**
 * Loaded before a program that was started with --expose-gc and a channel: answers each message with the memory that is
 * left after garbage was collected, in bytes, and how many sockets, timers and the like are open.
 */
import { setImmediate } from 'node:timers/promises';

async function tell() {
  for (let index = 0; index < 3; index += 1) {
    globalThis.gc?.();
    await setImmediate();
  }
  const { heapUsed, rss } = process.memoryUsage();
  process.send?.({ heapUsed, rss, resources: process.getActiveResourcesInfo().length });
}

process.on('message', () => {
  void tell();
});
// The program ends as if the channel were not there.
process.channel?.unref();
