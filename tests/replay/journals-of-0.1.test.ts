import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { agent, replay, tool } from 'millrace';
import { parseJournal } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { runInProcess } from '../cli/run-in-process.ts';
import { temporaryFolder } from '../cli/tools/temporary-folder.ts';

// Written by version 0.1.0 with `millrace export`, of turns of an agent with the tools `count` and `pay`, or with a sub-agent.
const fileOf = (name: string) => join(import.meta.dirname, `../fixtures/journals-0.1/${name}.jsonl`);
const journalOf = (name: string) => parseJournal(readFileSync(fileOf(name), 'utf8'));

const folder = temporaryFolder({});
afterAll(() => folder.remove());

describe('a journal of 0.1', () => {
  it.each(['completed', 'suspended', 'sub-agent'])('is replayed to the letter: %s', async (name) => {
    const records = journalOf(name);
    expect(records[0]).toMatchObject({ schema: 1 });
    const end = await replay(records).result();
    expect(end).toMatchObject({ status: name === 'suspended' ? 'input-required' : 'completed', deviations: [] });
    expect(end.records).toEqual(records);
  });

  it('of a suspended turn is imported, shown, resumed with an answer, and replayed', async () => {
    const path = join(folder.path, 'journals');
    const where = ['--store', `lmdb:${path}`];
    expect(await runInProcess(['import', fileOf('suspended'), ...where])).toMatchObject({ exitCode: 0 });
    const { exitCode, stdout } = await runInProcess(['show', 'suspended', ...where]);
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/count.*pay.*1:1/s)]);
    const taskStateStore = new LmdbStateStore({ path });
    const paid: unknown[] = [];
    const pay = tool({
      name: 'pay',
      description: 'Pays an amount.',
      parameters: { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] },
      needsApproval: true,
      execute: (given) => paid.push(given),
    });
    const provider = scriptedLLM([{ text: 'Five letters, and paid.' }]);
    const ada = agent({ id: 'ada', provider, tools: [pay], taskStateStore });
    const end = await ada.resume('suspended', { answers: { '1:1': { approved: true } } }).result();
    expect(end).toMatchObject({ status: 'completed', text: 'Five letters, and paid.' });
    expect(paid).toEqual([{ cents: 250 }]);
    expect(provider.calls[0]?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    const records = await taskStateStore.read('suspended');
    await taskStateStore.close();
    await expect(replay(records).result()).resolves.toMatchObject({ deviations: [], records });
  });
});
