import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type LLMChunk,
  type LLMProvider,
  LocalToolProvider,
  recordResponses,
  replayResponses,
  retry,
  tool,
} from 'millrace';
import { AgentLoop, redactChunks } from 'millrace/internals';
import { LiteLLMProvider } from 'millrace/litellm';
import { scriptedLLM, startModelServer } from 'millrace/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { chunksOf, failure, hi, inShort, streamOf } from './scripted-calls.ts';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cassettes-'));
  path = join(folder, 'new', 'answers.jsonl');
});
afterEach(() => rm(folder, { recursive: true }));

const nobody: LLMProvider = {
  call: () => {
    throw new Error('a replay asks nobody');
  },
};
const replayed = (): LLMProvider => replayResponses({ path })(nobody);
const asking = (content: string) => ({ messages: [{ role: 'user' as const, content }] });

describe('recordResponses and replayResponses', () => {
  it('play a turn over the wire with tools again, chunk by chunk, without the server', async () => {
    const add = tool({
      name: 'add',
      description: 'Adds.',
      parameters: { type: 'object' },
      execute: ({ a, b }) => Number(a) + Number(b),
    });
    const server = await startModelServer({
      script: [
        { text: 'Let me see.', toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] },
        { text: 'It is five.' },
      ],
    });
    const real = new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'm' });
    const turn = async (llmProvider: LLMProvider) => {
      const loop = new AgentLoop({ agentId: 'a', llmProvider, toolProviders: [new LocalToolProvider([add])] });
      const events = await lastValueFrom(loop.startTurn(hi.messages).pipe(toArray()));
      // What was fitted is about a request, which a replay does not make.
      const shown = events.filter(({ kind }) => kind !== 'internal:request-fitted');
      return shown.map((event) => (event.kind === 'artifact-update' ? event.artifact.parts : event.kind));
    };
    const live = await turn(recordResponses({ path })(real));
    await server.close();
    expect(await turn(replayed())).toEqual(live);
    expect(live).toContainEqual([{ kind: 'text', text: ' five.' }]);
  });

  it('play failures again, as they were: retry sees the same', async () => {
    const error = failure('PROVIDER_RATE_LIMIT', { status: 429, retryAfterMs: 0 });
    const again = retry({ initialDelayMs: 0 });
    const live = await chunksOf(
      again(recordResponses({ path })(scriptedLLM([{ text: 'Hel', error }, { text: 'Hello' }]))),
    );
    expect(await chunksOf(again(replayed()))).toEqual(live);
    expect(live).toEqual(['Hel', 'void PROVIDER_RATE_LIMIT', 'begin', 'Hello', 'done Hello']);
  });

  it('answer equal requests in the order of the recording, each once', async () => {
    const recorder = recordResponses({ path })(scriptedLLM([{ text: 'one' }, { text: 'two' }, { text: 'other' }]));
    await recorder.call(hi);
    await recorder.call(hi);
    await recorder.call(asking('Else'));
    const player = replayed();
    expect((await player.call(asking('Else'))).message.content).toBe('other');
    expect((await player.call(hi)).message.content).toBe('one');
    expect((await player.call(hi)).message.content).toBe('two');
    await expect(player.call(hi)).rejects.toMatchObject({
      code: 'DEVIATION',
      message: expect.stringMatching(/all that was recorded has been played/),
    });
  });

  it('name the first difference of a request that was not recorded', async () => {
    await recordResponses({ path })(scriptedLLM([{ text: 'one' }])).call(hi);
    await expect(replayed().call({ ...hi, temperature: 1 })).rejects.toMatchObject({
      code: 'DEVIATION',
      message: expect.stringMatching(/line 2 at temperature: expected nothing, got 1; record it again/),
    });
    await expect(replayed().call(asking('Bye'))).rejects.toMatchObject({
      message: expect.stringMatching(/at messages\.0\.content: expected "Hi", got "Bye"/),
    });
  });

  it('write no secret, also where it came in pieces, and find the request all the same', async () => {
    const secret = 'sk-abcdef1234567890';
    const llm = scriptedLLM([
      {
        text: ['Your key is sk-abc', 'def12345', '67890.'],
        reasoning: secret,
        toolCalls: [{ name: 'login', arguments: [`{"apiKey":"`, `${secret}"}`] }],
      },
      { error: failure('PROVIDER_AUTH', { cause: secret }) },
    ]);
    const recorder = recordResponses({ path, redact: (text) => text.replaceAll('Bob', 'NAME') })(llm);
    const given = await chunksOf(recorder, asking(`Bob's key is ${secret}`));
    expect(given.slice(1, 4)).toEqual(['Your key is sk-abc', 'def12345', '67890.']);
    await expect(recorder.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_AUTH' });
    const written = await readFile(path, 'utf8');
    expect(written).not.toMatch(/abcdef|12345|67890|Bob/);
    expect(written.split('\n')).toHaveLength(4);
    const player = replayResponses({ path, redact: (text) => text.replaceAll('Bob', 'NAME') })(nobody);
    const played = await lastValueFrom(streamOf(player, asking(`Bob's key is ${secret}`)).pipe(toArray()));
    expect(played.map(inShort).slice(0, 5)).toEqual(['reasoning', 'Your key is sk-[redacted].', '', '', 'tool-call']);
    expect(played.at(-1)).toMatchObject({
      response: {
        message: {
          content: 'Your key is sk-[redacted].',
          toolCalls: [{ function: { name: 'login', arguments: '{"apiKey":"[redacted]"}' } }],
        },
      },
    });
  });

  it('keep the pieces of texts without secrets, whatever they are', () => {
    const piece = fc.oneof(
      fc.record({ type: fc.constant('text' as const), text: fc.string() }),
      fc.record({ type: fc.constant('tool-call' as const), index: fc.nat(2), arguments: fc.string() }),
      fc.constant<LLMChunk>({ type: 'attempt', state: 'begin' }),
    );
    fc.assert(fc.property(fc.array(piece), (chunks) => expect(redactChunks(chunks, (text) => text)).toEqual(chunks)));
  });

  it('record no request that was left, and begin the file anew in each run', async () => {
    await recordResponses({ path })(scriptedLLM([{ text: 'old' }])).call(hi);
    const recorder = recordResponses({ path })(scriptedLLM([{ text: 'He', never: true }, { text: 'new' }]));
    streamOf(recorder).subscribe().unsubscribe();
    await recorder.call(hi);
    expect((await replayed().call(hi)).message.content).toBe('new');
    expect((await readFile(path, 'utf8')).trim().split('\n')).toHaveLength(2);
  });

  it('say what is wrong with a file', async () => {
    await expect(replayed().call(hi)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/record it with recordResponses/),
    });
    path = join(folder, 'answers.jsonl');
    const header = '{"format":"millrace-responses","version":1}';
    for (const [text, message] of [
      ['', /Line 1 of ".*" is not JSON/],
      ['{"format":"millrace-journal","version":1}', /Line 1 .* is no header of recorded answers/],
      [`${header}\n[]`, /Line 2 .* must be an object/],
      [`${header}\n{"chunks":[]}`, /Line 2 .* has no request/],
      [`${header}\n{"request":{},"chunks":[{"type":"txt"}]}`, /Line 2 .* has chunks that are none/],
      [`${header}\n{"request":{},"chunks":[{"type":"text","text":"x"}]}`, /Line 2 .* has neither an answer/],
      [`${header}\n{"request":{},"chunks":[],"error":{"code":"NEVER"}}`, /Line 2 .* has an error without a known code/],
    ] as const) {
      await writeFile(path, text);
      await expect(replayed().call(hi)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringMatching(message),
      });
    }
    await expect(
      recordResponses({ path: join(path, 'below') })(scriptedLLM([{ text: 'x' }])).call(hi),
    ).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/cannot be written/),
    });
  });
});
