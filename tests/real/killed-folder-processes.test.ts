import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { folderArtifactStore, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { ChildPrograms, kill, linesOf, nextMessage } from '../stores/lmdb/child-programs.ts';

const programs = new ChildPrograms('tests/stores/artifacts/children');
const folder = mkdtempSync(join(tmpdir(), 'millrace-artifacts-'));
afterAll(async () => {
  await programs.clear();
  rmSync(folder, { recursive: true });
});

describe('a folder of artifacts', () => {
  it('keeps every acknowledged version whole, and no half one, over kills with SIGKILL', async () => {
    const path = join(folder, 'killed');
    let last = 1;
    for (let round = 0; round < 6; round++) {
      const child = programs.start('write-artifacts', path, String(last));
      const printed = linesOf(child);
      await printed.reach(1 + Math.floor(Math.random() * 5));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
      await kill(child);
      const store = folderArtifactStore(path);
      const { version = 0 } = (await store.describe('a')) ?? {};
      expect(version).toBeGreaterThanOrEqual(Math.max(...printed.lines.map(Number)));
      for (const kept of [version - 1, version].filter((number) => number > 0)) {
        const { content } = (await store.get('a', { version: kept })) ?? {};
        expect(Buffer.from(content ?? []).toString()).toBe(`${kept % 10}`.repeat(200_000));
      }
      expect((await store.list({ taskId: 't' })).artifacts).toMatchObject([{ artifactId: 'a', version }]);
      last = version;
    }
  });

  it('reads 50 MB back byte for byte that were written in chunks, with no more than some chunks in memory', async () => {
    const path = join(folder, 'large');
    const child = programs.start('large-artifact', path, '50');
    const [report] = await nextMessage(child);
    expect(report).toMatchObject({ size: 50 * 1024 * 1024, same: true });
    expect(report.mostBytes).toBeGreaterThan(0);
    expect(report.mostBytes).toBeLessThan(8 * 1024 * 1024);
  });

  it('leaves in the journal of a turn only the id that its tool gives, not the content', async () => {
    const artifacts = folderArtifactStore(join(folder, 'journal'));
    const write = tool({
      name: 'write_report',
      description: 'Writes the report.',
      parameters: { type: 'object' },
      async execute(_, { taskId }) {
        const { artifactId } = await artifacts.create({ name: 'report', taskId, content: 'x'.repeat(2_000_000) });
        return { artifactId };
      },
    });
    const store = new InMemoryStateStore();
    const turn = new AgentLoop({
      agentId: 'writer',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'write_report' }] }, { text: 'Written.' }]),
      toolProviders: [new LocalToolProvider([write])],
      taskStateStore: store,
      enableTracing: false,
    }).startTurn([{ role: 'user', content: 'Write.' }], { taskId: 't' });
    await turn.result();
    await turn.settled;
    const [made] = (await artifacts.list({ taskId: 't' })).artifacts;
    const journal = JSON.stringify(store.read('t'));
    expect(made?.size).toBe(2_000_000);
    expect(journal).toContain(made?.artifactId);
    expect(journal.length).toBeLessThan(10_000);
    expect(readdirSync(join(folder, 'journal', 'drafts'))).toEqual([]);
  });
});
