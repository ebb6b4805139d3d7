import { describe, expect, it } from 'vitest';

import { acceptsEvents, acceptsJson, isJson } from '../../../src/http/media-types.ts';

describe('what a client accepts', () => {
  it.each([
    ['application/json, text/event-stream', true, true],
    ['text/event-stream,application/json', true, true],
    ['TEXT/Event-Stream;charset=utf-8 , Application/JSON; q=0.5', true, true],
    ['*/*', true, true],
    ['text/*', true, false],
    ['application/*;q=0.1', false, true],
    ['application/json', false, true],
    ['text/event-stream', true, false],
    ['text/event-stream;q=0, application/json', false, true],
    ['text/event-stream;q=0.000;x=1, application/json', false, true],
    ['text/event-stream;q=0.001, application/json;q=0', true, false],
    ['*/*;q=0', false, false],
    ['text/event-streams, application/json5', false, false],
    ['x-text/event-stream, application/x-json', false, false],
    ['text/html', false, false],
    ['*', false, false],
    [',;,', false, false],
    ['', false, false],
    [undefined, false, false],
  ])('is read from %j', (accept, events, json) => {
    expect([acceptsEvents(accept), acceptsJson(accept)]).toEqual([events, json]);
  });
});

describe('JSON', () => {
  it.each([
    ['application/json', true],
    ['Application/JSON; charset=UTF-8', true],
    [' application/json ;x', true],
    ['application/json-rpc', false],
    ['application/json, text/plain', false],
    ['text/plain; a=application/json', false],
    ['application/problem+json', false],
    ['', false],
    [undefined, false],
  ])('%j is: %s', (type, expected) => {
    expect(isJson(type)).toBe(expected);
  });
});
