import { describe, expect, it } from '@jest/globals';
import type { LLMProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { gate, startModelServer } from 'millrace/testing';
import { question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';
import { textOfParts, type Watcher, watch } from '../core/watch-events.ts';
import { localTools } from './local-tools.ts';

const bench = turnBench();
const pieces = ['One', 'Two', 'Six', 'Ten', 'End'] as const;

/** The pieces of text so far, without the empty chunk that closes an artifact. */
function textsSoFar(watcher: Watcher): readonly string[] {
  return watcher
    .of('artifact-update')
    .filter(({ lastChunk }) => !lastChunk)
    .map(textOfParts);
}

/** Lets the provider write its next piece only when the one before has been seen; gives what was seen by then each time. */
async function stepwise(provider: LLMProvider, gates: readonly { open(): void }[]) {
  const watcher = watch(new AgentLoop(bench.config(provider)).startTurn(question, { taskId: 't' }));
  const seen: (readonly string[])[] = [];
  for (const [index, each] of gates.entries()) {
    each.open();
    await watcher.until('artifact-update', (event) => textOfParts(event) === pieces[index]);
    seen.push(textsSoFar(watcher));
  }
  await watcher.ended;
  return { watcher, seen };
}

const oneByOne = pieces.map((_piece, index) => pieces.slice(0, index + 1));

describe('text', () => {
  it('S3-31 comes chunk by chunk, each before the next one is made', async () => {
    const gates = pieces.map(() => gate());
    const text = pieces.flatMap((piece, index) => [gates[index]?.pass() ?? '', piece]);
    const { seen } = await stepwise(bench.model([{ text }]), gates);
    expect(seen).toEqual(oneByOne);
  });

  it('S3-31 S4-31 comes chunk by chunk over the wire, with the task’s id, while the model goes on', async () => {
    const gates = pieces.map(() => gate());
    const server = await startModelServer({
      script: [{ text: pieces.join(''), chunkSize: 3, gate: (chunk) => gates[chunk]?.pass() }],
    });
    const provider = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'demo' });
    const { watcher, seen } = await stepwise(provider, gates);
    expect(seen).toEqual(oneByOne);
    expect(watcher.of('artifact-update').map(({ taskId }) => taskId)).toEqual(Array.from({ length: 6 }, () => 't'));
    await server.whenIdle();
    await server.close();
  });

  it('S3-32 is in one artifact-update a chunk; calls and reasoning give none', async () => {
    const steps = [
      { reasoning: 'Trees.', toolCalls: [{ name: 'look', arguments: ['{"at"', ':"pond"}'] }] },
      { reasoning: 'Leaves.', text: pieces },
    ];
    const loop = bench.loop(steps, { toolProviders: [localTools({ look: () => 'a tree' })] });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    expect(textsSoFar(watcher)).toEqual(pieces);
    expect(new Set(watcher.of('artifact-update').map(({ artifact }) => artifact.artifactId))).toEqual(
      new Set(['answer-2']),
    );
  });

  it('S3-35 ends with exactly one last chunk, behind all others of its answer', async () => {
    const steps = [{ text: pieces, toolCalls: [{ name: 'look' }] }, { text: ['It ', 'is.'] }];
    const loop = bench.loop(steps, { toolProviders: [localTools({ look: () => 'a tree' })] });
    const watcher = watch(loop.startTurn(question));
    await watcher.ended;
    for (const [artifactId, chunks] of [
      ['answer-1', 5],
      ['answer-2', 2],
    ] as const) {
      const updates = watcher.of('artifact-update').filter(({ artifact }) => artifact.artifactId === artifactId);
      const last = updates.map(({ lastChunk }) => lastChunk);
      expect(last).toEqual([...Array.from({ length: chunks }, () => false), true]);
    }
  });
});
