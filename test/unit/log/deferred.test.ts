import { describe, expect, it } from 'vitest';

import { Redactor } from '../../../src/core/redact.ts';
import { DeferredLogger } from '../../../src/log/deferred.ts';

function makeLog(level: string): { logger: DeferredLogger; written: () => string[] } {
  const lines: string[] = [];
  const redactor = new Redactor();
  redactor.add('hunter22');
  const logger = new DeferredLogger({ level, redactor, write: (line) => void lines.push(line) });
  return { logger, written: () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg) };
}

describe('a logger that loads later', () => {
  it('writes in order what came before, while and after it was loaded', async () => {
    const { logger, written } = makeLog('debug');
    logger.info('one');
    logger.debug('two');
    expect(written()).toEqual([]);
    const closing = logger.close();
    logger.warn('three');
    await closing;
    logger.error('four');
    expect(written()).toEqual(['one', 'two', 'three', 'four']);
  });

  it('keeps the fields and removes secrets', async () => {
    const lines: string[] = [];
    const redactor = new Redactor();
    const logger = new DeferredLogger({ level: 'info', redactor, write: (line) => void lines.push(line) });
    logger.info('child wrote', { pid: 7, line: 'hunter22' });
    // Registered after the event and before it is written.
    redactor.add('hunter22');
    await logger.close();
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ pid: 7, line: '[redacted]' });
  });

  it.each([
    ['trace', 4],
    ['debug', 4],
    ['info', 3],
    ['warn', 2],
    ['error', 1],
    ['fatal', 0],
    ['silent', 0],
  ])('at the level %s writes %i of four events, before and after it is loaded', async (level, count) => {
    const { logger, written } = makeLog(level);
    for (let round = 1; round <= 2; round += 1) {
      for (const name of ['debug', 'info', 'warn', 'error'] as const) logger[name](name);
      await logger.close();
      expect(written()).toHaveLength(count * round);
    }
  });

  it('loads nothing where nothing is to be written', async () => {
    const { logger, written } = makeLog('info');
    logger.debug('not written');
    let isClosed = false;
    void logger.close().then(() => (isClosed = true));
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    // Loading would take longer than some microtasks.
    expect(isClosed).toBe(true);
    expect(written()).toEqual([]);
  });
});
