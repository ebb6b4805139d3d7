import { describe, expect, it } from 'vitest';

import { Scope } from '../../../src/core/scope.ts';

describe('Scope', () => {
  it('gives back what was acquired in reverse order, each after the one before it has finished', async () => {
    const order: string[] = [];
    const scope = new Scope();
    scope.defer(() => void order.push('first'));
    scope.own({
      close: async () => {
        order.push('second begins');
        await Promise.resolve();
        order.push('second ends');
      },
    });
    scope.defer(() => void order.push('third'));
    await scope.close();
    expect(order).toEqual(['third', 'second begins', 'second ends', 'first']);
  });

  it('returns the thing that it owns', () => {
    const thing = { close: () => undefined };
    expect(new Scope().own(thing)).toBe(thing);
  });

  it('runs each release once, and gives every caller the same end', async () => {
    let runs = 0;
    const scope = new Scope();
    scope.defer(() => void (runs += 1));
    const first = scope.close();
    expect(scope.close()).toBe(first);
    await first;
    await scope.close();
    expect(runs).toBe(1);
  });

  it('runs every release even if others fail, and reports all failures together', async () => {
    const order: string[] = [];
    const scope = new Scope();
    scope.defer(() => void order.push('first'));
    scope.defer(() => Promise.reject(new Error('asynchronous')));
    scope.defer(() => {
      throw new Error('synchronous');
    });
    const failure = await scope.close().catch((thrown: unknown) => thrown);
    expect(failure).toBeInstanceOf(AggregateError);
    expect((failure as AggregateError).errors.map(String)).toEqual(['Error: synchronous', 'Error: asynchronous']);
    expect(order).toEqual(['first']);
  });

  it('says that it is closed from the first close on', () => {
    const scope = new Scope();
    expect(scope.isClosed).toBe(false);
    void scope.close();
    expect(scope.isClosed).toBe(true);
  });

  it('gives back at once what is acquired after it was closed', async () => {
    const order: string[] = [];
    const scope = new Scope();
    await scope.close();
    scope.defer(() => void order.push('late'));
    await scope.close();
    expect(order).toEqual(['late']);
  });

  it('takes what is acquired while it is closing', async () => {
    const order: string[] = [];
    const scope = new Scope();
    scope.defer(() => {
      scope.defer(() => void order.push('late'));
      order.push('first');
    });
    await scope.close();
    await scope.close();
    expect(order).toEqual(['first', 'late']);
  });

  it('gives back what is acquired after a close that failed', async () => {
    const order: string[] = [];
    const scope = new Scope();
    scope.defer(() => Promise.reject(new Error('no')));
    await scope.close().catch(() => undefined);
    scope.defer(() => void order.push('late'));
    await scope.close().catch(() => undefined);
    expect(order).toEqual(['late']);
  });
});
