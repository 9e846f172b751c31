import { describe, expect, it } from '@jest/globals';
import { InMemoryMessageStore } from 'millrace';
import { fakeClock, messageStoreContract } from 'millrace/testing';

messageStoreContract({ name: 'InMemoryMessageStore', createStore: () => new InMemoryMessageStore() }, { describe, it });

const hello = [{ role: 'user', content: 'Hello' }] as const;

describe('InMemoryMessageStore', () => {
  it('deletes the context written to longest ago beyond maxContexts, but none with open turns', () => {
    const store = new InMemoryMessageStore({ maxContexts: 2 });
    store.begin('open', 't');
    store.append('old', 't', hello);
    store.append('new', 't', hello);
    const ids = () => store.contexts().contexts.map(({ contextId }) => contextId);
    expect(ids()).toEqual(['new', 'open']);
    store.append('open', 't', hello);
    store.setMetadata('newest', {});
    expect(ids()).toEqual(['newest', 'open']);
  });

  it('keeps what was just written, also where all others have open turns', () => {
    const store = new InMemoryMessageStore({ maxContexts: 1 });
    store.begin('a', 't');
    store.begin('b', 't');
    store.append('c', 't', hello);
    expect(store.load('c').messages).toEqual(hello);
  });

  it('says when a context was made and written to last', () => {
    const clock = fakeClock({ startAt: 1_000 });
    const store = new InMemoryMessageStore({ clock });
    store.begin('c', 't');
    clock.advance(500);
    store.append('c', 't', hello);
    expect(store.contexts().contexts).toMatchObject([
      { createdAt: '1970-01-01T00:00:01.000Z', updatedAt: '1970-01-01T00:00:01.500Z' },
    ]);
  });

  it.each([{ maxContexts: 0 }, { maxContexts: Number.NaN }, { maxContext: 1 }])('refuses %j', (options) => {
    expect(() => new InMemoryMessageStore(options)).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});
