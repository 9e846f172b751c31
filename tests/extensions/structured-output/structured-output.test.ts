import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, doneTool, type Extension, type LLMCapabilities, structuredOutput, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStepCall, ScriptedLLM, ScriptedLLMStep } from 'millrace/testing';
import { z } from 'zod';
import { deadTurn, firstCall, question } from '../../core/dead-turn.ts';
import { type PlainTool, plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';

const bench = turnBench();

const schema = z.object({ city: z.string(), celsius: z.number() });
const oslo = { city: 'Oslo', celsius: 4 };
const good: ScriptedLLMStep = { toolCalls: [{ name: '__finish__', arguments: oslo }] };
const bad: ScriptedLLMStep = { toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo' } }] };
const counting: ScriptedLLMStep = { toolCalls: [{ name: 'count' }] };
const plain: ScriptedLLMStep = { text: 'It is cold in Oslo.' };

interface TryOptions {
  readonly output?: Parameters<typeof structuredOutput>[0];
  readonly maxIterations?: number;
  readonly capabilities?: LLMCapabilities;
  readonly tools?: Readonly<Record<string, PlainTool>>;
  readonly others?: readonly Extension[];
}

let turns = 0;

/** A turn with the output of the schema; the model follows the script. */
function turnOf(steps: readonly ScriptedLLMStep[], options: TryOptions = {}) {
  const { output, maxIterations, capabilities, tools = { count: () => 2 }, others = [] } = options;
  const model = bench.model(steps, capabilities && { capabilities });
  const config = bench.config(model, {
    toolProviders: [plainTools(tools)],
    extensions: [...others, structuredOutput(output ?? { schema })],
    ...(maxIterations === undefined ? {} : { maxIterations }),
  });
  return { model, result: new AgentLoop(config).startTurn(question, { taskId: `o${++turns}` }).result() };
}

/** What the model was told last in a request. */
function lastOf(model: ScriptedLLM, request: number): string {
  return textOf(model.calls[request]?.messages.at(-1)?.content);
}

const calling = (...toolCalls: readonly LLMStepCall[]): ScriptedLLMStep => ({ toolCalls });

describe('structuredOutput', () => {
  it('S3-03 offers a finish tool whose JSON Schema is that of the output', async () => {
    const jsonSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } as const;
    const { model, result } = turnOf([calling({ name: '__finish__', arguments: { n: 1 } })], {
      output: { schema: jsonSchema },
    });
    await result;
    const offered = model.calls[0]?.tools?.map((tool) => tool.function) ?? [];
    expect(offered.find(({ name }) => name === '__finish__')?.parameters).toEqual(jsonSchema);
  });

  it('S3-04 ends with a valid call of it, without another request; the value is typed', async () => {
    const output = structuredOutput({ schema });
    const result = await bench
      .loop([good], { extensions: [output] })
      .startTurn(question)
      .result();
    expect(result).toMatchObject({ status: 'completed', reason: 'stop', value: oslo, iterations: 1 });
    const value: { city: string; celsius: number } = output.outputOf(result);
    // @ts-expect-error the schema has no such member
    expect(value.fahrenheit).toBeUndefined();
    expect(value).toEqual(oslo);
    expect(result.messages.at(-1)).toMatchObject({ role: 'tool', content: 'accepted' });
  });

  it('S3-05 tells a model that answers in plain text to call the tool', async () => {
    const { model, result } = turnOf([plain, good]);
    expect((await result).value).toEqual(oslo);
    expect(lastOf(model, 1)).toContain('call the tool __finish__');
  });

  it('S3-05 S3-07 fails on the third plain answer', async () => {
    await expect(turnOf([plain, plain, plain]).result).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('S3-06 tells the model which argument does not fit', async () => {
    const { model, result } = turnOf([bad, good]);
    expect((await result).value).toEqual(oslo);
    expect(model.calls[1]?.messages.at(-1)).toMatchObject({ role: 'tool', status: 'error' });
    expect(lastOf(model, 1)).toContain('arguments.celsius');
  });

  it('S3-07 S3-44 takes an output after two that do not fit, which are no iterations', async () => {
    const { model, result } = turnOf([counting, bad, bad, counting, good], { maxIterations: 3 });
    expect(await result).toMatchObject({ status: 'completed', value: oslo });
    expect(model.calls.every(({ toolChoice }) => toolChoice === undefined)).toBe(true);
  });

  it('S3-07 S3-44 fails with PARSE_ERROR on the third', async () => {
    await expect(turnOf([bad, bad, bad]).result).rejects.toMatchObject({
      code: 'PARSE_ERROR',
      message: expect.stringContaining('arguments.celsius'),
    });
    await expect(turnOf([bad], { output: { schema, parseRetries: 0 } }).result).rejects.toMatchObject({
      code: 'PARSE_ERROR',
    });
  });

  it('S3-08 makes one request in a single turn', async () => {
    const output = { schema, forceFinish: false };
    const { model, result } = turnOf([plain], { output, maxIterations: 1 });
    expect(await result).toMatchObject({ status: 'completed', reason: 'unfinished', value: undefined });
    expect(model.calls).toHaveLength(1);
  });

  it('S3-08 has a limit of ten iterations where none is given', async () => {
    const { model, result } = turnOf([...Array.from({ length: 10 }, () => counting), good]);
    await result;
    expect(model.calls.map(({ toolChoice }) => toolChoice !== undefined)).toEqual([...Array(10).fill(false), true]);
  });

  it('S3-09 runs the tools of a single turn and does not force the output', async () => {
    const ran: string[] = [];
    const { model, result } = turnOf([calling({ name: 'note' })], {
      output: { schema, forceFinish: false },
      maxIterations: 1,
      tools: { note: () => ran.push('note') },
    });
    expect(await result).toMatchObject({ reason: 'unfinished', toolCalls: 1, iterations: 1 });
    expect(model.calls).toHaveLength(1);
    expect(ran).toEqual(['note']);
  });

  it('asks again without force where that is off, also in the last iteration', async () => {
    const { model, result } = turnOf([counting, plain, good], {
      output: { schema, forceFinish: false },
      maxIterations: 2,
    });
    expect((await result).value).toEqual(oslo);
    expect(model.calls.map(({ toolChoice }) => toolChoice)).toEqual([undefined, undefined, undefined]);
  });

  it('S3-10 needs no force where the model finishes in its last iteration', async () => {
    const { model, result } = turnOf([counting, counting, good], { maxIterations: 3 });
    expect((await result).value).toEqual(oslo);
    expect(model.calls.map(({ toolChoice }) => toolChoice)).toEqual([undefined, undefined, undefined]);
  });

  it('S3-11 forces the tool behind the last iteration, the messages unchanged', async () => {
    const { model, result } = turnOf([counting, counting, good], { maxIterations: 2 });
    expect((await result).value).toEqual(oslo);
    const [, second, forced] = model.calls;
    expect(forced?.toolChoice).toEqual({ name: '__finish__' });
    expect(forced?.messages.slice(0, second?.messages.length)).toEqual(second?.messages);
    expect(forced?.messages.slice(second?.messages.length ?? 0).map(({ role }) => role)).toEqual(['assistant', 'tool']);
    expect(forced?.tools).toEqual(second?.tools);
  });

  it('S3-14 asks again where a forced output does not fit', async () => {
    const retried = turnOf([counting, bad, bad, good], { maxIterations: 1 });
    expect((await retried.result).value).toEqual(oslo);
    expect(retried.model.calls.slice(1).map(({ toolChoice }) => toolChoice)).toEqual(
      Array(3).fill({ name: '__finish__' }),
    );
    const failing = turnOf([counting, bad, plain, counting], { maxIterations: 1 });
    await expect(failing.result).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('S3-42 keeps the results of calls that started, and skips later ones', async () => {
    const ran: string[] = [];
    const step = calling({ name: 'note' }, { name: '__finish__', arguments: oslo }, { name: 'note' });
    const result = await turnOf([step], { tools: { note: ({ callId }) => ran.push(callId) } }).result;
    expect(result.value).toEqual(oslo);
    expect(ran).toEqual(['1:0']);
    const contents = result.messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
    expect(contents).toEqual(['1', 'accepted', expect.stringContaining('skipped: the turn finished')]);
  });

  it('S3-43 takes the first valid of several outputs', async () => {
    const other = { city: 'Rome', celsius: 20 };
    const finish = (args: object) => ({ name: '__finish__', arguments: args });
    const { result } = turnOf([calling(finish({ city: 1 }), finish(oslo), finish(other))]);
    const { value, messages } = await result;
    expect(value).toEqual(oslo);
    expect(textOf(messages.at(-1)?.content)).toContain('skipped');
  });

  it('S3-26 checks the value with which another extension finishes', async () => {
    const finishing = (value: unknown): Extension => ({ name: 'other', afterIteration: () => ({ finish: { value } }) });
    expect((await turnOf([counting], { others: [finishing(oslo)] }).result).value).toEqual(oslo);
    await expect(turnOf([counting], { others: [finishing({ city: 3 })] }).result).rejects.toMatchObject({
      code: 'PARSE_ERROR',
      message: expect.stringContaining('arguments.city'),
      result: { value: undefined },
    });
  });

  it('S3-26 checks what another extension makes of an output that was accepted', async () => {
    const changing = (value: unknown): Extension => ({ name: 'other', afterTurn: () => ({ value }) });
    const rome = { city: 'Rome', celsius: 20 };
    expect((await turnOf([good], { others: [changing(rome)] }).result).value).toEqual(rome);
    await expect(turnOf([good], { others: [changing({ city: 3 })] }).result).rejects.toMatchObject({
      code: 'PARSE_ERROR',
      result: { value: undefined },
    });
  });

  it('keeps what the schema made of the arguments, once', async () => {
    const doubling = z.object({ n: z.number().transform((n) => String(n)) });
    const { result } = turnOf([calling({ name: '__finish__', arguments: { n: 4 } })], { output: { schema: doubling } });
    expect((await result).value).toEqual({ n: '4' });
  });

  it.each([
    ['a Map', z.object({ n: z.number().transform((n) => new Map([[n, n]])) }), 'the output.n is a Map'],
    ['a bigint', z.object({ n: z.number().transform(BigInt) }), 'the output.n is a bigint'],
  ])('ends with no value that a resumed turn would not have: %s', async (_, converting, what) => {
    const { result } = turnOf([calling({ name: '__finish__', arguments: { n: 4 } })], {
      output: { schema: converting },
    });
    const message = expect.stringContaining(`${what}, which JSON cannot hold`);
    await expect(result).rejects.toMatchObject({ code: 'INVALID_CONFIG', message, result: { value: undefined } });
  });

  it('asks again, and not for ever, where the schema itself fails', async () => {
    const unavailable = () => {
      throw new Error('no database');
    };
    const broken = z.object({ n: z.number().refine(unavailable) });
    const finish = calling({ name: '__finish__', arguments: { n: 4 } });
    const { result } = turnOf([finish, finish, finish], { output: { schema: broken } });
    const message = expect.stringMatching(/in 3 attempts \(parseRetries\); the last problem: .*no database/);
    await expect(result).rejects.toMatchObject({ code: 'PARSE_ERROR', message });
  });

  it('counts retries across a crash', async () => {
    const output = structuredOutput({ schema });
    const retry = { type: 'x.structured-output' as const, hook: 'afterIteration' as const };
    deadTurn(bench, [
      firstCall,
      {
        type: 'llm.done',
        iteration: 1,
        attempt: 1,
        message: { role: 'assistant', content: 'Cold.' },
        calls: [],
        finishReason: 'stop',
      },
      {
        ...retry,
        hook: 'beforeFinish',
        effects: { messages: [{ role: 'user', content: 'again' }], settings: { maxIterations: 11 } },
        data: { retries: 2, forced: false },
      },
    ]);
    const config = bench.config(bench.model([bad]), { extensions: [output] });
    await expect(AgentLoop.resume('t', config).result()).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('H-32 asks the model again in a retry of a turn whose finish calls had wrong arguments, with all its retries', async () => {
    let counts = 0;
    const toolProviders = [plainTools({ count: () => ++counts })];
    const wrong = calling({ name: 'count' }, { name: '__finish__', arguments: { city: 'Oslo' } });
    for (const parseRetries of [0, 1]) {
      counts = 0;
      const options = { toolProviders, extensions: [structuredOutput({ schema, parseRetries })] };
      const taskId = `old-${parseRetries}`;
      const earlier = Array.from({ length: parseRetries }, () => bad);
      const failed = bench.loop([...earlier, wrong], options).startTurn(question, { taskId });
      await expect(failed.result()).rejects.toMatchObject({ code: 'PARSE_ERROR' });
      const model = bench.model([...earlier, good]);
      const again = AgentLoop.retry(taskId, bench.config(model, options), { taskId: `new-${parseRetries}` });
      expect((await again.result()).value).toEqual(oslo);
      expect([model.calls.length, counts]).toEqual([parseRetries + 1, 1]);
      expect(lastOf(model, 0)).toMatch(/celsius/);
    }
  });

  it('H-32 asks the model again in a retry of a turn that the done tool ended without an output', async () => {
    const options = { extensions: [doneTool(), structuredOutput({ schema })] };
    const failed = bench.loop([calling({ name: 'done' })], options).startTurn(question, { taskId: 'old' });
    await expect(failed.result()).rejects.toMatchObject({ code: 'PARSE_ERROR' });
    const again = AgentLoop.retry('old', bench.config(bench.model([good]), options), { taskId: 'new' });
    expect((await again.result()).value).toEqual(oslo);
  });

  it('refuses members of a schema in place of a schema', () => {
    const message = expect.stringMatching(
      /member "n" is a schema, and no schema itself; wrap it, with Zod as z\.object/,
    );
    const refused = expect.objectContaining({ code: 'INVALID_CONFIG', message });
    expect(() => structuredOutput({ schema: { n: z.number() } })).toThrow(refused);
  });

  it('refuses wrong options', () => {
    expect(() => structuredOutput({ schema, parseRetries: -1 })).toThrow(/parseRetries is -1/);
    expect(() => structuredOutput({ schema, name: 'with blank' })).toThrow(/name is "with blank"/);
    // @ts-expect-error no such mode
    expect(() => structuredOutput({ schema, mode: 'xml' })).toThrow(/mode is "xml"/);
    // @ts-expect-error no such option
    expect(() => structuredOutput({ schema, retries: 2 })).toThrow(/retries is 2; the options are schema/);
  });

  it('has no output of a turn that ended without', () => {
    const result = { value: undefined, taskId: 't', reason: 'unfinished' };
    expect(() => structuredOutput({ schema }).outputOf(result)).toThrow(/no output \(unfinished\)/);
  });
});

describe('structuredOutput without a choice of tools', () => {
  const described = z.object({
    city: z.string().describe('The <city>, in English'),
    tags: z.array(z.string()),
    place: z.object({ latitude: z.number() }),
  });
  const answer = `<output><city>Trondheim &amp; Oslo</city><tags><item>a</item><item>b</item></tags>
    <place><latitude>63.4</latitude></place></output>`;
  const value = { city: 'Trondheim & Oslo', tags: ['a', 'b'], place: { latitude: 63.4 } };
  const options = { output: { schema: described }, maxIterations: 1, capabilities: { toolChoice: false } };

  it('S3-12 shows a form in XML with descriptions behind the last iteration', async () => {
    const { model, result } = turnOf([counting, { text: answer }], options);
    await result;
    expect(lastOf(model, 1)).toContain('<city description="The &lt;city&gt;, in English"></city>');
    expect(lastOf(model, 1)).toContain('<latitude description="a number"></latitude>');
    expect(model.calls[1]?.toolChoice).toBeUndefined();
  });

  it('S3-13 makes a finish call of the filled form', async () => {
    const { result } = turnOf([counting, { text: `Here you are:\n${answer}` }], options);
    expect((await result).value).toEqual(value);
    const intents = bench.store.read(`o${turns}`).filter((record) => record.type === 'tool.intent');
    expect(intents.at(-1)).toMatchObject({ callId: '2:0', arguments: value });
  });

  it('S3-14 asks again where the form does not fit', async () => {
    const wrong = { text: '<output><city>Oslo</city></output>' };
    const { model, result } = turnOf([counting, wrong, plain, { text: answer }], options);
    expect((await result).value).toEqual(value);
    expect(model.calls[2]?.messages.some(({ content }) => textOf(content).includes('arguments.tags'))).toBe(true);
    const failing = turnOf([counting, wrong, plain, wrong], options);
    await expect(failing.result).rejects.toMatchObject({ code: 'PARSE_ERROR' });
  });

  it('takes no form from an answer that was cut short', async () => {
    const cut = { text: answer, finishReason: 'length' as const };
    await expect(turnOf([counting, cut], options).result).rejects.toMatchObject({ code: 'LENGTH' });
  });

  it('S3-12 asks a model without tools in each request, and shows it no calls', async () => {
    const wrong = { text: '<output><city>Oslo</city></output>' };
    const { model, result } = turnOf([wrong, { text: answer }], { ...options, capabilities: { tools: false } });
    expect((await result).value).toEqual(value);
    const [first, second] = model.calls;
    expect(first?.tools).toBeUndefined();
    expect(second?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'user']);
    expect(second?.messages.some((message) => 'toolCalls' in message)).toBe(false);
  });
});

describe('structuredOutput as text in a guaranteed form', () => {
  const text = JSON.stringify(oslo);
  const native = { output: { schema, mode: 'native' as const }, capabilities: { responseFormat: true } };

  it('asks for the form of the schema, offers no finish tool, and takes the answer', async () => {
    const { model, result } = turnOf([counting, { text }], native);
    expect(await result).toMatchObject({ value: oslo, text });
    const { responseFormat, tools } = model.calls[0] ?? {};
    expect(responseFormat).toMatchObject({ type: 'json_schema', schema: { required: ['city', 'celsius'] } });
    expect(tools?.map((tool) => tool.function.name)).toEqual(['count']);
  });

  it('asks again where the answer does not fit', async () => {
    const { model, result } = turnOf([{ text: '{"city":"Oslo"}' }, { text: 'no' }, { text }], native);
    expect((await result).value).toEqual(oslo);
    expect(lastOf(model, 1)).toContain('arguments.celsius');
    expect(lastOf(model, 2)).toContain('not JSON');
  });

  it('offers no tools behind the last iteration', async () => {
    const { model, result } = turnOf([counting, { text }], { ...native, maxIterations: 1 });
    expect((await result).value).toEqual(oslo);
    expect(model.calls[1]?.tools).toBeUndefined();
  });

  it('is how a model without a choice of tools is made to answer, where it has that', async () => {
    const capabilities = { toolChoice: false, responseFormat: true };
    const { model, result } = turnOf([counting, { text }], { capabilities, maxIterations: 1 });
    expect((await result).value).toEqual(oslo);
    expect(model.calls.map(({ responseFormat }) => responseFormat !== undefined)).toEqual([false, true]);
  });

  it('fails at once on a provider that does not keep to one', async () => {
    const { model, result } = turnOf([], { output: native.output });
    await expect(result).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    expect(model.calls).toHaveLength(0);
  });
});

describe('the text of an answer', () => {
  const text = JSON.stringify(oslo);
  const native = { output: { schema, mode: 'native' as const }, capabilities: { responseFormat: true } };

  it.each([
    `\`\`\`json\n${text}\n\`\`\``,
    `<think>{"city":"Rome","celsius":9}</think>\n${text}`,
    `Not {"city":"Oslo"} alone, but ${text}`,
  ])('M-14 is read without another request: %s', async (answer) => {
    const { model, result } = turnOf([{ text: answer }], native);
    expect((await result).value).toEqual(oslo);
    expect(model.calls).toHaveLength(1);
  });

  it('M-14 is asked for again where it has several values that fit', async () => {
    const { model, result } = turnOf([{ text: `${text} or {"city":"Rome","celsius":9}` }, { text }], native);
    expect((await result).value).toEqual(oslo);
    expect(lastOf(model, 1)).toContain('several values');
  });

  it('M-13 may be the value without the object around it', async () => {
    const output = { schema: z.array(z.string()), mode: 'native' as const };
    const { result } = turnOf([{ text: '["a"]' }], { ...native, output });
    expect((await result).value).toEqual(['a']);
  });

  it('M-13 has null for a member that is absent', async () => {
    const inner = z.object({ note: z.string().optional(), left: z.string().nullish() });
    const output = { schema: z.object({ all: z.array(inner), n: z.number().default(1) }), mode: 'native' as const };
    const answer = '{"all":[{"note":null,"left":null}],"n":null}';
    const { result } = turnOf([{ text: answer }], { ...native, output });
    expect((await result).value).toEqual({ all: [{ left: null }], n: 1 });
    const call = calling({ name: '__finish__', arguments: [answer] });
    expect((await turnOf([call], { output: { schema: output.schema } }).result).value).toEqual({
      all: [{ left: null }],
      n: 1,
    });
  });
});

describe('a finish tool that must be called', () => {
  const refusal = new AgentLoopError('PROVIDER_BAD_REQUEST', 'Thinking mode does not support this tool_choice.');

  it('M-19 is offered alone where the server refuses to force it, and not forced again', async () => {
    const { model, result } = turnOf([counting, { error: refusal }, plain, good], { maxIterations: 1 });
    expect((await result).value).toEqual(oslo);
    expect(model.calls.map(({ toolChoice }) => toolChoice)).toEqual([
      undefined,
      { name: '__finish__' },
      'auto',
      'auto',
    ]);
    expect(model.calls[2]?.tools?.map((tool) => tool.function.name)).toEqual(['__finish__']);
  });

  it('M-19 fails with any other refusal', async () => {
    const error = new AgentLoopError('PROVIDER_BAD_REQUEST', 'The messages are wrong.');
    const { model, result } = turnOf([counting, { error }], { maxIterations: 1 });
    await expect(result).rejects.toMatchObject({ code: 'PROVIDER_BAD_REQUEST' });
    expect(model.calls).toHaveLength(2);
  });

  it('M-19 may be written as text', async () => {
    const { model, result } = turnOf([counting, { text: `It is ${JSON.stringify(oslo)}.` }], { maxIterations: 1 });
    expect((await result).value).toEqual(oslo);
    expect(model.calls).toHaveLength(2);
  });
});
