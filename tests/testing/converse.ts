import { chatRequestOf } from 'millrace/internals';
import { type ChatRequest, demoModel, type ModelReply } from 'millrace/testing';

export interface TestTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  readonly run: (given: Readonly<Record<string, string>>) => string;
}

export interface Exchange {
  /** What the model said, reply by reply; the last one is its answer. */
  readonly texts: readonly string[];
  /** Name and arguments of the calls of each reply that asked for some. */
  readonly calls: readonly (readonly (readonly [string, unknown])[])[];
  readonly answer: string;
}

type WireMessage = Readonly<Record<string, unknown>>;

/** A conversation with the demo model, its tools run as an engine would run them; at most ten replies a prompt. */
export function conversationWith(tools: readonly TestTool[], extra: object = {}) {
  const messages: WireMessage[] = [];
  const offered = tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }));

  const reply = (options: object = {}): ModelReply =>
    demoModel(requestOf({ messages, tools: offered, ...extra, ...options }));

  const say = (prompt: string): Exchange => {
    messages.push({ role: 'user', content: prompt });
    const [texts, calls]: [string[], (readonly [string, unknown])[][]] = [[], []];
    for (let turn = 0; turn < 10; turn++) {
      const { text = '', toolCalls = [] } = reply();
      texts.push(text);
      const asked = toolCalls.map((call, index) => ({ ...call, id: `${messages.length}:${index}` }));
      messages.push({
        role: 'assistant',
        content: text,
        tool_calls: asked.map(({ id, ...called }) => ({ id, function: called })),
      });
      if (asked.length === 0) return { texts, calls, answer: text };
      calls.push(asked.map((call) => [call.name, JSON.parse(call.arguments)] as const));
      for (const call of asked) messages.push({ role: 'tool', tool_call_id: call.id, content: resultOf(tools, call) });
    }
    throw new Error(`The model does not come to an end: ${JSON.stringify(calls)}`);
  };

  return { messages, reply, say };
}

export function requestOf(body: object): ChatRequest {
  return chatRequestOf(body);
}

function resultOf(tools: readonly TestTool[], call: { readonly name: string; readonly arguments: string }): string {
  const tool = tools.find(({ name }) => name === call.name);
  return tool === undefined ? `Error: Unknown tool '${call.name}'` : tool.run(JSON.parse(call.arguments));
}

function object(properties: Readonly<Record<string, object>>, required = Object.keys(properties)): object {
  return { type: 'object', properties, required };
}

const text = { type: 'string' };

const files: Readonly<Record<string, string>> = {
  'src/share-turn.ts':
    '/** Many subscribers, one execution. The last one out cancels. */\nexport function shareTurn() {}\nexport const x = 1;\n',
  'src/turn.ts': "import { shareTurn } from './share-turn.ts';\n",
  'README.md': '# Millrace\n\nA *TypeScript* engine. It has `turns`. More follows.\n\n## Install\n\nText.\n\n## Use\n',
  'package.json': '{"name":"millrace","version":"1.0.0","description":"An engine."}',
};

/** Tools over a small workspace, as the command has them. */
export const workspaceTools: readonly TestTool[] = [
  {
    name: 'calculate',
    description: 'Computes an arithmetic expression.',
    parameters: object({ expression: text }),
    run: ({ expression = '' }) => (expression === '12 * 7' ? '84' : `Error: cannot compute ${expression}`),
  },
  {
    name: 'current_time',
    description: 'Tells the date and the time in a time zone.',
    parameters: object({ zone: text }, []),
    run: ({ zone = 'UTC' }) =>
      JSON.stringify({ zone, time: zone === 'Asia/Tokyo' ? '2026-03-01T07:05:00+09:00' : '2026-02-28T22:05:00Z' }),
  },
  {
    name: 'list_files',
    description: 'Lists the files of a folder.',
    parameters: object({ path: text }, []),
    run: ({ path = '.' }) => {
      const names = Object.keys(files).filter((file) => path === '.' || file.startsWith(`${path}/`));
      return names.map((file) => (path === '.' ? file : file.slice(path.length + 1))).join('\n');
    },
  },
  {
    name: 'read_file',
    description: 'Reads a text file.',
    parameters: object({ path: text }),
    run: ({ path = '' }) => files[path] ?? `Error: ${path} does not exist`,
  },
  {
    name: 'search_files',
    description: 'Searches the files for a text.',
    parameters: object({ query: text, path: text }, ['query']),
    run: ({ query = '' }) => {
      const lines = Object.entries(files).flatMap(([file, content]) =>
        content.split('\n').map((line, index) => ({ line, place: `${file}:${index + 1}: ${line}` })),
      );
      const found = lines.filter(({ line }) => line.includes(query)).map(({ place }) => place);
      return found.length === 0 ? 'No matches.' : found.join('\n');
    },
  },
];

/** Tools of another kind, with other parameters. */
export const otherTools: readonly TestTool[] = [
  {
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: object({ city: text, unit: { enum: ['celsius', 'fahrenheit'] } }, ['city']),
    run: ({ city }) => JSON.stringify({ temperature: city === 'Paris' ? 18 : 25, sky: 'cloudy' }),
  },
  {
    name: 'convert_currency',
    description: 'Converts an amount of money.',
    parameters: object({ amount: { type: 'number' }, unit: { enum: ['euros', 'dollars'] } }),
    run: ({ amount }) => JSON.stringify({ result: Number(amount) / 2 }),
  },
  {
    name: 'lookup_order',
    description: 'Tells what became of an order.',
    parameters: object({ order_id: text }),
    run: ({ order_id }) => `Order ${order_id} was shipped.`,
  },
];
