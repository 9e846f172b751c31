import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { done, noteRecord as note, Owner, startRecord } from 'millrace/internals';
import { storeContract } from 'millrace/testing';
import { JsonLinesStore } from '../../examples/own-store.ts';
import { testLimitMs } from '../eventually.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-own-store-'));
afterAll(() => rmSync(folder, { recursive: true }));
let made = 0;
const newFolder = () => join(folder, String(made++));

storeContract(
  {
    name: 'JsonLinesStore of examples/own-store.ts',
    createStore: ({ clock }) => new JsonLinesStore(newFolder(), clock),
    deadlineMs: testLimitMs,
  },
  { describe, it },
);

describe('JsonLinesStore of examples/own-store.ts', () => {
  it('reads its files again: tasks, leases, commands; a line that is not whole counts for nothing', async () => {
    const path = newFolder();
    const store = new JsonLinesStore(path);
    for (const taskId of ['one', 'two']) store.create(taskId, startRecord(taskId));
    const owner = new Owner(store, store.acquire('one', 'owner', 60_000));
    await owner.append(note('kept'));
    store.post('one', { id: 'c', type: 'cancel' });
    appendFileSync(join(path, 'one.jsonl'), '\n{"records":[{"type":"x.cut"');
    const again = new JsonLinesStore(path);
    expect(again.read('one')).toEqual(store.read('one'));
    expect(again.list()).toEqual(store.list());
    expect(() => again.acquire('one', 'another', 1_000)).toThrow(expect.objectContaining({ code: 'BUSY' }));
    const commands: string[] = [];
    again.commands('one').subscribe(({ id }) => commands.push(id));
    expect(commands).toEqual(['c']);
    again.append(owner.lease, owner.stamp(done), { status: 'completed', barrier: true });
    expect(new JsonLinesStore(path).load('one')).toMatchObject({ status: 'completed' });
  });
});
