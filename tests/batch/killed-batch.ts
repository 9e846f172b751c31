import { join } from 'node:path';
import { expect } from '@jest/globals';
import { taskIdOf } from 'millrace/internals';
import { gate, startModelServer } from 'millrace/testing';
import { type ChildPrograms, kill } from '../stores/lmdb/child-programs.ts';
import { keysIn, linesIn, temporaryFolder } from './echoing.ts';
import { openedStore } from './opened-store.ts';

export interface KilledBatch {
  readonly kind: 'lmdb' | 'redis' | 'postgres';
  /** A folder or a URL. */
  readonly place: string;
  readonly count: number;
  readonly children: ChildPrograms;
}

/** What a child says of its batch. */
interface Said {
  readonly rows?: number;
  readonly state?: string;
  readonly completed?: number;
  readonly error?: string;
}

/** Kills the process of a batch at 40 %, starts it again, and checks that each prompt has one row, and was paid once if it had ended. */
export async function checkKilledBatch({ kind, place, count, children }: KilledBatch): Promise<void> {
  const killed = gate();
  // However late the signal comes, a part is left to do: the last fifth has no answer before.
  const script = Array.from({ length: 2 * count }, (_, index) => ({
    text: 'Said.',
    ...(index >= 0.8 * count && { gate: killed.pass() }),
  }));
  const model = await startModelServer({ keepRequests: 2 * count, script });
  const out = join(temporaryFolder(), 'results.jsonl');
  const args = [kind, place, model.baseUrl, out, String(count)];
  try {
    const first = children.start('batch', ...args);
    await new Promise<void>((resolve, reject) => {
      first.on('message', ({ rows = 0, error }: Said) => {
        if (rows >= count * 0.4) resolve();
        if (error !== undefined) reject(new Error(error));
      });
      first.once('exit', () => reject(new Error('The child ended before it was killed.')));
    });
    await kill(first);
    killed.open();
    await model.whenIdle();
    const paid = model.received;
    const ended = await endedKeys({ kind, place, count });
    expect(ended.length).toBeGreaterThanOrEqual(count * 0.4);
    expect(ended.length).toBeLessThan(count);

    const second = children.start('batch', ...args);
    const last = await new Promise<Said>((resolve, reject) => {
      second.on('message', (said: Said) => {
        if (said.state !== undefined) resolve(said);
        if (said.error !== undefined) reject(new Error(said.error));
      });
      second.once('exit', () => reject(new Error('The child ended before its batch did.')));
    });
    expect(last).toEqual({ state: 'completed', completed: count });
    const keys = Array.from({ length: count }, (_, index) => `k${index + 1}`);
    expect(keysIn(out)).toEqual(keys.toSorted());
    expect(linesIn(out).every(({ status }) => status === 'completed')).toBe(true);
    // What ran when the process was killed is paid again, unless its answer was recorded, and nothing else.
    expect(model.received).toBeLessThanOrEqual(count + paid - ended.length);
    expect(paid - ended.length).toBeLessThanOrEqual(10);
    const prompts = model.requests.map(({ messages }) => JSON.stringify(messages ?? []));
    const paidTwice = ended.filter((key) => {
      const quoted = `Say ${key.slice(1)}.`;
      return prompts.filter((prompt) => prompt.includes(quoted)).length !== 1;
    });
    expect(paidTwice).toEqual([]);
  } finally {
    await model.close();
  }
}

/** The items whose end is in the journal, with or without a row. */
async function endedKeys({ kind, place, count }: Omit<KilledBatch, 'children'>): Promise<readonly string[]> {
  const { store, close } = openedStore(kind, place);
  const keys: string[] = [];
  for (let index = 1; index <= count; index++) {
    const task = await store.describe(taskIdOf('kill', `k${index}`));
    if (task?.state === 'completed') keys.push(`k${index}`);
  }
  await close();
  return keys;
}
