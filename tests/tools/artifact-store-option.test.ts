import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import {
  AgentLoop,
  agent,
  agentTools,
  artifactTools,
  branch,
  cacheTools,
  checkedTools,
  type Extension,
  eagerTools,
  folderArtifactStore,
  InMemoryArtifactStore,
  InMemoryCacheStore,
  replay,
} from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { operatorTurn } from 'millrace/operators';
import type { ScriptedLLM } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { ChildPrograms, kill, nextMessage } from '../stores/lmdb/child-programs.ts';

const bench = turnBench();
const programs = new ChildPrograms('tests/tools/children');
afterAll(() => programs.clear());

const artifactNames = ['create_artifact', 'update_artifact', 'read_artifact', 'list_artifacts'];
const create = { toolCalls: [{ name: 'create_artifact', arguments: { name: 'report.md', content: '# One' } }] };
const read = (artifactId: string) => ({ toolCalls: [{ name: 'read_artifact', arguments: { artifactId } }] });

/** The names of the tools that a model was offered in a call. */
const offered = (model: ScriptedLLM, call = 0) => model.calls[call]?.tools?.map((each) => each.function.name) ?? [];
const lastMessage = (model: ScriptedLLM, call: number) => model.calls[call]?.messages.at(-1);

describe('artifactStore of an AgentLoop', () => {
  it.each([1, 124, 125, 128])('R-19 keeps an artifact of a turn whose task id has %d characters', async (length) => {
    const artifactStore = new InMemoryArtifactStore();
    const writer = agent({ name: 'writer', provider: bench.model([create, { text: 'Done.' }]), artifactStore });
    await writer.run('Write.', { taskId: 't'.repeat(length) });
    expect((await artifactStore.list({})).artifacts).toHaveLength(1);
  });

  it('R-03 lets the model read an artifact that is larger than a result may be, in parts', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const content = `${'ä'.repeat(2 * 1024 * 1024 - 1)}🐘${'z'.repeat(2 * 1024 * 1024)}`;
    artifactStore.create({ artifactId: 'large', name: 'large.txt', contextId: 'c', content });
    const from = (position: number) => ({
      toolCalls: [{ name: 'read_artifact', arguments: { artifactId: 'large', from: position } }],
    });
    const ends = [2 * 1024 * 1024 - 1, 4 * 1024 * 1024 - 1];
    const model = bench.model([read('large'), ...ends.map(from), { text: 'Done.' }]);
    const loop = new AgentLoop(bench.config(model, { artifactStore }));
    await loop.startTurn(question, { contextId: 'c' }).result();
    const parts = [1, 2, 3].map((call) => String(lastMessage(model, call)?.content));
    const notes = ends.map((end) => `\n[… ${content.length - end} more characters; read them with from: ${end} …]`);
    expect(notes.map((note, index) => parts[index]?.endsWith(note))).toEqual([true, true]);
    expect(
      parts.map((part, index) => part.slice(0, part.length - (notes[index]?.length ?? 0))).join('') === content,
    ).toBe(true);
  });

  it('U-02 brings the tools that keep artifacts, after the others, in a replay too', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const model = bench.model([create, read('t:1:0'), { text: 'Done.' }]);
    const toolProviders = [plainTools({ count: () => 2 })];
    const loop = new AgentLoop(bench.config(model, { toolProviders, artifactStore }));
    await loop.startTurn(question, { taskId: 't', contextId: 'c' }).result();
    expect(offered(model)).toEqual(['count', ...artifactNames]);
    expect(lastMessage(model, 2)).toMatchObject({ role: 'tool', content: '# One' });
    expect(await artifactStore.describe('t:1:0')).toMatchObject({ taskId: 't', contextId: 'c', version: 1 });
    const records = bench.store.read('t');
    expect((await replay(records, { toolProviders, artifactStore }).result()).records).toEqual(records);
  });

  it.each<[string, (store: InMemoryArtifactStore) => object]>([
    ['as they are', (store) => ({ toolProviders: [artifactTools(store)] })],
    ['cached', (store) => ({ toolProviders: [cacheTools({ store: new InMemoryCacheStore() })(artifactTools(store))] })],
    ['checked', (store) => ({ toolProviders: [checkedTools(checkedTools(artifactTools(store)))] })],
    ['early', (store) => eagerParts(store)],
    ['with an extension', (store) => ({ extensions: [{ name: 'kept', toolProviders: [artifactTools(store)] }] })],
  ])('U-02 does not bring tools of the same store twice: %s', async (_, more) => {
    const artifactStore = new InMemoryArtifactStore();
    for (const options of [{ ...more(artifactStore), artifactStore }]) {
      const model = bench.model([{ text: 'Done.' }]);
      await new AgentLoop(bench.config(model, options)).startTurn(question).result();
      expect(offered(model)).toEqual(artifactNames);
      const provider = bench.model([{ text: 'Done.' }]);
      await agent({ provider, clock: bench.clock, ...options }).run('Hello');
      expect(offered(provider)).toEqual(artifactNames);
    }
  });

  it('U-02 beside the tools of another store it is a DUPLICATE_TOOL, not a silent choice', async () => {
    const toolProviders = [artifactTools(new InMemoryArtifactStore())];
    const options = { toolProviders, artifactStore: new InMemoryArtifactStore() };
    const turn = new AgentLoop(bench.config(bench.model([]), options)).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({ code: 'DUPLICATE_TOOL' });
  });

  it('U-02 works after the process was killed, in another one', async () => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-artifact-loop-'));
    const child = programs.start('artifact-turn', path);
    await nextMessage(child);
    await kill(child);
    const taskStateStore = new LmdbStateStore({ path: `${path}/journal` });
    const artifactStore = folderArtifactStore(`${path}/artifacts`);
    try {
      const model = bench.model([read('t:1:0'), { text: 'Done.' }]);
      const config = { agentId: 'writer', llmProvider: model, taskStateStore, artifactStore, enableTracing: false };
      const { text } = await AgentLoop.resume('t', config, { onBusy: 'wait' }).result();
      expect(text).toBe('Done.');
      expect(lastMessage(model, 1)).toMatchObject({ content: '# One' });
      expect((await artifactStore.list({ taskId: 't' })).artifacts).toHaveLength(1);
    } finally {
      await taskStateStore.close();
      rmSync(path, { recursive: true });
    }
  });

  it('U-02 works in a retry, a fork and a turn that is composed of operators', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const failing = bench.config(bench.model([create, { error: new Error('no line') }]), { artifactStore });
    await expect(new AgentLoop(failing).startTurn(question, { taskId: 't' }).result()).rejects.toThrow('no line');
    const model = bench.model([read('t:1:0'), { text: 'Done.' }]);
    const again = bench.config(model, { artifactStore });
    await AgentLoop.retry('t', again, { taskId: 'again' }).result();
    expect(lastMessage(model, 1)).toMatchObject({ content: '# One' });
    await AgentLoop.fork('t', { store: bench.store, at: 1, taskId: 'forked', clock: bench.clock });
    const forked = bench.model([read('t:1:0'), { text: 'Done.' }]);
    await AgentLoop.resume('forked', bench.config(forked, { artifactStore })).result();
    expect(lastMessage(forked, 1)).toMatchObject({ content: '# One' });
    const { deps, span } = await operatorTurn({ agentId: 'a', llmProvider: bench.model([]), artifactStore }, question);
    span.end();
    expect([...deps.segment.tools.byName.keys()]).toEqual(artifactNames);
  });

  it('U-02 works in sub-agents, in a branch, and after a hand-over to an agent that has one', async () => {
    const artifactStore = new InMemoryArtifactStore();
    const writing = bench.model([create, { text: 'Written.' }]);
    const writer = agent({ name: 'writer', description: 'Writes.', provider: writing, artifactStore, retry: null });
    const branched = bench.model([create, { text: 'Branched.' }]);
    const reviewer: Extension = {
      name: 'reviewer',
      async afterIteration(step) {
        if (step.iteration > 1) return undefined;
        await branch(step, { config: bench.config(branched, { artifactStore }), messages: question });
        return { agent: { to: 'keeper', reason: 'route' } };
      },
    };
    const keeping = bench.model([create, { text: 'Kept.' }]);
    const model = bench.model([{ toolCalls: [{ name: 'writer', arguments: { message: 'Write.' } }] }]);
    const config = bench.config(model, {
      toolProviders: [agentTools([writer])],
      extensions: [reviewer],
      agents: (id) => (id === 'keeper' ? { llmProvider: keeping, artifactStore } : undefined),
    });
    await new AgentLoop(config).startTurn(question, { taskId: 't', contextId: 'c' }).result();
    expect(offered(model)).toEqual(['writer']);
    const ids = (await artifactStore.list()).artifacts.map(({ artifactId }) => artifactId);
    expect(ids.sort()).toEqual(['t.1.branch:1:0', 't:1:0:1:0', 't:2:0']);
  });

  it.each([{}, null, 'x', { create() {}, update() {}, get() {}, list() {}, delete() {} }])(
    'U-02 is refused where it is no store of artifacts: %s',
    (artifactStore) => {
      const llmProvider = bench.model([]);
      const refusal = expect.objectContaining({
        code: 'INVALID_CONFIG',
        message: expect.stringMatching(
          /^artifactStore must be an ArtifactStore; it .*; give new InMemoryArtifactStore/,
        ),
      });
      const config = { agentId: 'a', llmProvider, artifactStore, taskStateStore: bench.store };
      expect(() => Reflect.construct(AgentLoop, [config])).toThrow(refusal);
      expect(() => Reflect.apply(AgentLoop.resume, AgentLoop, ['t', config])).toThrow(refusal);
      expect(() => Reflect.apply(AgentLoop.retry, AgentLoop, ['t', config])).toThrow(refusal);
      expect(() => Reflect.apply(agent, undefined, [{ provider: llmProvider, artifactStore }])).toThrow(refusal);
    },
  );

  it('is an option, and others are refused with all that there are', () => {
    const made = (option: object) => () =>
      Reflect.construct(AgentLoop, [{ ...bench.config(bench.model([])), ...option }]);
    expect(made({ artifactStore: undefined })).not.toThrow();
    expect(made({ artifactStor: 1 })).toThrow(/artifactStor is not an option; the options are: .* artifactStore,/);
    expect(made({ artifactStore: new InMemoryArtifactStore(), toolProviders: 7 })).toThrow(/toolProviders must be/);
    expect(made({ artifactStore: new InMemoryArtifactStore(), agents: 7 })).toThrow(/agents must be a function/);
    for (const config of [undefined, null, 7])
      expect(() => Reflect.construct(AgentLoop, [config])).toThrow(/must be an object/);
  });
});

function eagerParts(store: InMemoryArtifactStore): object {
  const { toolProvider, extension } = eagerTools(artifactTools(store));
  return { toolProviders: [toolProvider], extensions: [extension] };
}
