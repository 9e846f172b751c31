import { deflateSync } from 'node:zlib';
import {
  type AgentEvent,
  AgentLoop,
  type AgentLoopConfig,
  AgentLoopError,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  LocalToolProvider,
  type Message,
  structuredOutput,
  type ToolDefinition,
  tool,
} from 'millrace';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';

/** What can be tried of any model, by its provider alone. Resolves with what was seen; rejects with what is wrong. */
export interface Scenario {
  readonly name: string;
  readonly play: (provider: LLMProvider) => Promise<string>;
}

const calculate = tool({
  name: 'calculate',
  description: 'Computes an arithmetic expression.',
  parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  execute: ({ expression }) => {
    const [, a = '', b = ''] = /(\d+)\s*[*x×]\s*(\d+)/.exec(String(expression)) ?? [];
    return String(Number(a) * Number(b));
  },
});

const searchFiles = tool({
  name: 'search_files',
  description: 'Searches all files for a word, and gives the paths of those that hold it.',
  parameters: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
  execute: () => 'notes/river.md',
});

const readFile = tool({
  name: 'read_file',
  description: 'Reads a file.',
  parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
  execute: () => 'The code word is heron.',
});

/** As MCP servers send them: a union at the root, an empty member of an enum, an array without items. */
const awkward = tool({
  name: 'calculate',
  description: 'Computes an arithmetic expression.',
  parameters: {
    type: 'object',
    properties: {
      expression: { type: 'string' },
      unit: { enum: ['', 'cm', 'm'] },
      notes: { type: 'array' },
      extra: { type: 'object' },
    },
    required: ['expression'],
    anyOf: [{ required: ['expression'] }, { required: ['notes'] }],
  },
  execute: () => '84',
});

const computeWithTool = 'Compute with the tool `calculate`, never yourself.';

interface Played {
  readonly text: string;
  readonly value: unknown;
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number } | undefined;
  readonly events: readonly AgentEvent[];
}

type Settings = Omit<AgentLoopConfig, 'agentId' | 'llmProvider' | 'toolProviders'> & {
  readonly tools?: ConstructorParameters<typeof LocalToolProvider>[0];
};

async function turn(provider: LLMProvider, messages: readonly Message[], settings: Settings = {}): Promise<Played> {
  const { tools, ...rest } = settings;
  const loop = new AgentLoop({
    agentId: 'live',
    llmProvider: provider,
    ...(tools && { toolProviders: [new LocalToolProvider(tools)] }),
    maxIterations: 8,
    ...rest,
  });
  const run = loop.startTurn(messages);
  const [events, result] = await Promise.all([lastValueFrom(run.pipe(toArray())), run.result()]);
  return { text: result.text, value: result.value, usage: result.usage, events };
}

function asked(text: string, system?: string): readonly Message[] {
  const question = { role: 'user' as const, content: text };
  return system === undefined ? [question] : [{ role: 'system', content: system }, question];
}

function ensure(isGood: boolean, otherwise: string): void {
  if (!isGood) throw new Error(otherwise);
}

/** The names of the tools that ran, in their order. */
function toolsRun({ events }: Played): readonly string[] {
  return events.flatMap((event) => (event.kind === 'internal:tool-start' ? [event.toolName] : []));
}

function iterations({ events }: Played): number {
  return events.filter(({ kind }) => kind === 'internal:iteration-start').length;
}

async function streamed(provider: LLMProvider, params: LLMCallParams): Promise<LLMResponse> {
  if (provider.stream === undefined) return provider.call(params);
  const last = await lastValueFrom(provider.stream(params));
  if (last.type !== 'done') throw new Error('the stream ended without the end of the answer');
  return last.response;
}

/** The twelve scenarios. Their questions are such that the demo model answers them too. */
export const scenarios: readonly Scenario[] = [
  {
    name: 'tools over two iterations',
    async play(provider) {
      const question =
        'Search all files for "river", then read the file that was found, and say what the code word is.';
      const played = await turn(provider, asked(question), { tools: [searchFiles, readFile] });
      const run = toolsRun(played);
      ensure(run.includes('search_files') && run.includes('read_file'), `it called ${run.join(', ') || 'no tool'}`);
      ensure(/heron/i.test(played.text), `the code word is not in "${played.text}"`);
      return `${run.length} calls, ${iterations(played)} iterations`;
    },
  },
  {
    name: 'parallel tools',
    async play(provider) {
      const question = asked('What is 12 * 7? What is 15 * 3?', computeWithTool);
      const played = await turn(provider, question, { tools: [calculate] });
      ensure(toolsRun(played).length >= 2, `it called ${toolsRun(played).length} tools`);
      ensure(/84/.test(played.text) && /45/.test(played.text), `a result is not in "${played.text}"`);
      return iterations(played) === 2 ? 'in one answer' : 'one after the other';
    },
  },
  {
    name: 'reasoning kept',
    async play(provider) {
      const question = asked('What is 12 * 7?', computeWithTool);
      const played = await turn(provider, question, { tools: [calculate], reasoning: 'low' });
      ensure(toolsRun(played).length > 0, 'it called no tool');
      ensure(/84/.test(played.text), `the result is not in "${played.text}"`);
      const isShown = played.events.some(({ kind }) => kind === 'internal:reasoning-delta');
      return isShown ? 'shown' : 'not shown';
    },
  },
  {
    name: 'structured output',
    async play(provider) {
      const schema = {
        type: 'object',
        properties: { city: { type: 'string' }, note: { type: 'string' } },
        required: ['city'],
      } as const;
      const mode = provider.capabilities?.responseFormat === true ? 'native' : 'auto';
      const output = structuredOutput({ schema, mode });
      const { value } = await turn(provider, asked('Which city is the capital of Norway?'), { extensions: [output] });
      const city = typeof value === 'object' && value !== null ? Reflect.get(value, 'city') : undefined;
      ensure(typeof city === 'string' && city !== '', `the value is ${JSON.stringify(value)}`);
      return mode;
    },
  },
  {
    name: 'picture in',
    async play(provider) {
      const content = [
        { type: 'text' as const, text: 'Which colour has this picture?' },
        { type: 'image_url' as const, image_url: { url: redPicture() } },
      ];
      const { text } = await turn(provider, [{ role: 'user', content }]);
      ensure(text.trim() !== '', 'the answer is empty');
      return /red/i.test(text) ? 'seen' : 'answered';
    },
  },
  {
    name: 'long prompt',
    async play(provider) {
      const text = 'The river is wide and the heron waits. '.repeat(1_000);
      const played = await turn(provider, asked('Hello', `Answer in one sentence. Background: ${text}`));
      ensure(played.text.trim() !== '', 'the answer is empty');
      return `${played.usage?.promptTokens ?? '?'} tokens`;
    },
  },
  {
    name: 'bad schema',
    async play(provider) {
      const question = asked('What is 12 * 7?', computeWithTool);
      const played = await turn(provider, question, { tools: [awkward] });
      ensure(toolsRun(played).length > 0, 'it called no tool');
      return `${iterations(played)} iterations`;
    },
  },
  {
    name: 'cancel',
    async play(provider) {
      if (provider.stream === undefined) return 'it does not stream';
      const first = await firstValueFrom(provider.stream({ messages: asked('Tell a long story.') }));
      const again = await streamed(provider, { messages: asked('Hello') });
      ensure(again.message.role === 'assistant', 'there is no answer after a cancelled one');
      return `after a chunk of ${first.type}`;
    },
  },
  {
    name: 'usage',
    async play(provider) {
      const { usage } = await streamed(provider, { messages: asked('Hello') });
      ensure(usage !== undefined, 'no usage was reported');
      const { promptTokens = 0, completionTokens = 0 } = usage ?? {};
      ensure(promptTokens > 0 && completionTokens > 0, `it is ${promptTokens} and ${completionTokens} tokens`);
      return `${promptTokens} and ${completionTokens} tokens`;
    },
  },
  {
    name: 'stop word',
    async play(provider) {
      const question = 'Count from one to ten in English words, with a space between them.';
      const { text, events } = await turn(provider, asked(question), { stop: ['seven', 'words'] });
      const isLeftOut = events.some(
        (event) => event.kind === 'internal:request-fitted' && event.changes.some(({ at }) => at === 'stop'),
      );
      if (isLeftOut) return 'left out: the model does not take it';
      ensure(!/seven|words/.test(text), `"${text}" holds it`);
      return 'kept';
    },
  },
  {
    name: 'forced tool',
    async play(provider) {
      if (provider.capabilities?.toolChoice === false) return 'it forces none';
      const tools = [calculate, readFile].map((each) => each.definition satisfies ToolDefinition);
      const params = { messages: asked('What is 12 * 7?'), tools, toolChoice: { name: 'calculate' } };
      const { message, toolCalls } = await streamed(provider, params);
      const calls = toolCalls ?? (message.role === 'assistant' ? message.toolCalls : undefined) ?? [];
      ensure(calls[0]?.function.name === 'calculate', `it called ${calls[0]?.function.name ?? 'no tool'}`);
      return 'called';
    },
  },
  {
    name: 'error words',
    async play(provider) {
      const model = 'no-such-model';
      try {
        await streamed(provider, { messages: asked('Hello'), model });
      } catch (error) {
        ensure(AgentLoopError.isInstance(error), `it is no AgentLoopError: ${String(error)}`);
        const { code, message } = error as AgentLoopError;
        ensure(code === 'PROVIDER_NOT_FOUND' || code === 'PROVIDER_BAD_REQUEST', `its code is ${code}: ${message}`);
        return code;
      }
      throw new Error(`it answered for the model ${model}`);
    },
  },
];

/** A red square of 64 pixels as a PNG. */
function redPicture(): string {
  const side = 64;
  const row = Buffer.concat([Buffer.from([0]), Buffer.from(Array.from({ length: side }, () => [255, 0, 0]).flat())]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: side }, () => row)));
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const png = Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))]);
  return `data:image/png;base64,${png.toString('base64')}`;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function crc32(data: Buffer): number {
  let crc = 0xff_ff_ff_ff;
  for (const byte of data) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xed_b8_83_20 : 0);
  }
  return (crc ^ 0xff_ff_ff_ff) >>> 0;
}
