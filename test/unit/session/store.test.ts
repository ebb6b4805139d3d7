import { describe, expect, it } from 'vitest';

import { MemoryStore, type SessionRecord } from '../../../src/session/store.ts';

function makeRecord(id: string): SessionRecord {
  return {
    id,
    createdAt: '2026-01-01T00:00:00.000Z',
    lastUsedAt: '2026-01-01T00:00:00.000Z',
    state: 'open',
    client: { name: 'a client', version: '1' },
    protocolVersion: '2025-11-25',
  };
}

describe('MemoryStore', () => {
  it('keeps one record per id, the newest', () => {
    const store = new MemoryStore();
    store.put(makeRecord('one'));
    store.put(makeRecord('two'));
    store.put({ ...makeRecord('one'), state: 'closing' });
    expect(store.size()).toBe(2);
    expect([...store.records()].map(({ id, state }) => `${id} ${state}`)).toEqual(['one closing', 'two open']);
  });

  it('notes the last use and leaves the rest of the record alone', () => {
    const store = new MemoryStore();
    const record = makeRecord('one');
    store.put(record);
    store.touch('one', '2026-01-02T00:00:00.000Z');
    expect([...store.records()]).toEqual([{ ...record, lastUsedAt: '2026-01-02T00:00:00.000Z' }]);
    expect(record.lastUsedAt).toBe('2026-01-01T00:00:00.000Z');
  });

  it('makes no record of an id that it does not know', () => {
    const store = new MemoryStore();
    store.touch('nobody', '2026-01-02T00:00:00.000Z');
    store.remove('nobody');
    expect(store.size()).toBe(0);
  });

  it('is empty when everything was removed', () => {
    const store = new MemoryStore();
    store.put(makeRecord('one'));
    store.remove('one');
    expect(store.size()).toBe(0);
  });
});
