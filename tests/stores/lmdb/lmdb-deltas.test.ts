import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { LmdbDatabase, llmAnswer, llmStart, textDelta, upTo, watch } from 'millrace/internals';
import type { Delta, FollowSignal } from 'millrace/types';
import { held, stamp } from '../held-task.ts';
import { ChildPrograms } from './child-programs.ts';
import { TemporaryStores } from './temporary-stores.ts';

const stores = new TemporaryStores();
const children = new ChildPrograms();

afterEach(() => stores.clear());
afterAll(() => children.clear());

const options = { status: 'working', barrier: true } as const;

function textsOf(signals: readonly FollowSignal[]): readonly string[] {
  return signals.flatMap((signal) => {
    if (signal.type === 'record') return [signal.record.type];
    const { delta } = signal;
    if (delta.type === 'tool-progress') return [`progress ${String(delta.update)}`];
    return 'text' in delta.chunk ? [`${delta.chunk.type} ${delta.chunk.text}`] : [delta.chunk.type];
  });
}

describe('deltas of LmdbStateStore', () => {
  const progress = (epoch: number, update: unknown): Delta => ({
    type: 'tool-progress',
    epoch,
    callId: '1:0',
    update,
  });
  const reasoning = (epoch: number, text: string): Delta => ({
    type: 'llm',
    epoch,
    iteration: 1,
    attempt: 1,
    chunk: { type: 'reasoning', text },
  });

  it('reach a reader of the same store at once, in the order of the turn', async () => {
    const store = stores.open();
    const lease = await held(store);
    const { epoch } = lease;
    const seen: FollowSignal[] = [];
    const reader = store.follow('t').subscribe((signal) => seen.push(signal));
    await store.append(lease, stamp(lease, 2, llmStart(1)), options);
    store.publish('t', textDelta(epoch, 'one'));
    store.publish('t', reasoning(epoch, 'hm'));
    store.publish('t', textDelta(epoch, ' two'));
    expect(textsOf(seen)).toEqual(['turn.started', 'llm.start', 'text one', 'reasoning hm', 'text  two']);
    await store.append(lease, stamp(lease, 3, llmAnswer(1, 'one two')), options);
    store.publish('t', textDelta(epoch, 'too late'));
    store.publish('t', progress(epoch, 'half'));
    expect(textsOf(seen).slice(5)).toEqual(['llm.done', 'progress half']);
    reader.unsubscribe();
  });

  it('keep a text of any length and any characters whole on its way to another store', async () => {
    const path = stores.path();
    const [owner, other] = [stores.open({ path }), stores.open({ path })];
    const lease = await held(owner);
    await owner.append(lease, stamp(lease, 2, llmStart(1)), options);
    const early = watch(other.follow('t'));
    const words = upTo(4_000).map((number) => `${number} ä😀 `);
    for (const [index, word] of words.entries()) {
      owner.publish('t', textDelta(lease.epoch, word));
      owner.publish('t', reasoning(lease.epoch, 'x'.repeat(2_000)));
      if (index % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    const textOf = ({ values }: { readonly values: readonly FollowSignal[] }) =>
      textsOf(values)
        .filter((text) => text.startsWith('text '))
        .map((text) => text.slice(5))
        .join('');
    const whole = words.join('');
    await early.until('the text', (reading) => textOf(reading).length >= whole.length);
    expect(textOf(early)).toBe(whole);
    const late = watch(other.follow('t', { from: 3 }));
    await late.until('the text', (reading) => textOf(reading).length >= whole.length);
    expect(late.values).toHaveLength(1);
    expect(textOf(late)).toBe(whole);
    for (const reader of [early, late]) reader.stop();
  });

  it('are not written where no other store reads', async () => {
    const path = stores.path();
    const store = stores.open({ path, pollMs: 1 });
    const lease = await held(store);
    await store.append(lease, stamp(lease, 2, llmStart(1)), options);
    const own = watch(store.follow('t'));
    store.publish('t', textDelta(lease.epoch, 'nobody else reads this'));
    expect(textsOf(own.values).at(-1)).toBe('text nobody else reads this');
    await store.post('t', { id: 'c', type: 'pause' });
    const database = new LmdbDatabase(path);
    expect(database.read(() => database.get(['delta', 't']))).toBeUndefined();
    await database.close();
    own.stop();
  });

  it('of every kind are kept within bounds', async () => {
    const path = stores.path();
    const [owner, other] = [stores.open({ path }), stores.open({ path })];
    const lease = await held(owner);
    const reader = watch(other.follow('t'));
    for (const number of upTo(1_000)) owner.publish('t', progress(lease.epoch, `${number} ${'x'.repeat(3_000)}`));
    await reader.until('the last one', ({ values }) => textsOf(values).at(-1)?.startsWith('progress 1000 ') === true);
    expect(reader.values.length).toBeLessThan(70);
    reader.stop();
  });
});
