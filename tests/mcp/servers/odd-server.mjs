// An MCP server by hand, over stdio, for what well-kept servers do not do. Each tool is one oddity. What happens is noted in the file that
// the variable LEDGER names, a line each.
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { LEDGER, STUBBORN, HOLD, BEFORE, SECRET = 'none' } = process.env;
const note = (line) => LEDGER && appendFileSync(LEDGER, `${line}\n`);
const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (value) => ({
  content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }],
});
const object = (properties = {}) => ({ type: 'object', properties });

/** What the client answers to our own requests, by id. */
const waiting = new Map();
let requests = 0;
const request = (method, params) =>
  new Promise((resolve) => {
    const id = `s${++requests}`;
    waiting.set(id, resolve);
    write({ id, method, params });
  });

let silent = false;
const canceled = new Set();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const name = { type: 'object', properties: { name: { type: 'string', minLength: 2 } }, required: ['name'] };

/** Checks that take for ever: a pattern, the name of a member, a `$ref` that doubles, and the comparison of all pairs. */
const evil = '^(a+)+$';
const doubling = Object.fromEntries(
  Array.from({ length: 40 }, (_, at) => [
    `d${at}`,
    { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
  ]),
);
const traps = {
  pattern: { properties: { text: { type: 'string', pattern: evil } } },
  member: { patternProperties: { [evil]: { type: 'string' } } },
  reference: { $ref: '#/$defs/d0', $defs: { ...doubling, d40: { type: 'object' } } },
  pairs: { properties: { list: { type: 'array', uniqueItems: true } } },
};
const trapTools = Object.fromEntries(
  Object.entries(traps).flatMap(([kind, schema]) => [
    [`in_${kind}`, { inputSchema: { type: 'object', ...schema }, run: () => text('ran') }],
    [
      `out_${kind}`,
      {
        outputSchema: { type: 'object', ...schema },
        run: (args) => ({
          content: [],
          structuredContent: args.pairs ? { list: Array.from({ length: args.pairs }, (_, id) => ({ id })) } : args,
        }),
      },
    ],
  ]),
);

/** Takes effect, and does not answer where HOLD is set. */
function slowly(what) {
  note(`ran ${what}`);
  return HOLD ? new Promise(() => {}) : text(`${what} done`);
}

const tools = {
  ...(process.env.TRAPS ? trapTools : {}),
  meta: { run: (_args, { _meta }) => text(_meta) },
  echo: {
    inputSchema: { ...object({ text: { type: 'string' } }), required: ['text'] },
    run: ({ text: said }) => text(said),
  },
  env: { run: () => text(process.env) },
  die: { run: () => process.exit(7) },
  never: { run: () => new Promise(() => {}) },
  hang: {
    run() {
      silent = true;
      return new Promise(() => {});
    },
  },
  steps: {
    inputSchema: object({ count: { type: 'integer' }, everyMs: { type: 'integer' } }),
    async run({ count = 3, everyMs = 20 }, { _meta }, id) {
      for (let progress = 1; progress <= count; progress++) {
        await sleep(everyMs);
        if (canceled.has(id)) return new Promise(() => {});
        const params = { progressToken: _meta?.progressToken, progress, total: count, message: `step ${progress}` };
        write({ method: 'notifications/progress', params });
      }
      return text('all steps');
    },
  },
  garbage: {
    run() {
      process.stdout.write('Listening on stdio...\n{"jsonrpc":"2.0","id":\n\u0000\u0001\n{"jsonrpc":"1.0"}\n');
      return text('behind the garbage');
    },
  },
  shapeless: { run: () => ({ content: 'no list' }) },
  refuse: { run: () => Promise.reject(new Error(`no such thing, says ${SECRET}`)) },
  leaking: { run: () => ({ isError: true, ...text(`no such token: ${process.env.SECRET}`) }) },
  failing: { run: () => ({ isError: true, ...text('the disk is full') }) },
  liar: {
    outputSchema: { type: 'object', properties: { celsius: { type: 'number' } }, required: ['celsius'] },
    run: () => ({ content: [], structuredContent: { celsius: 'warm' } }),
  },
  data: { run: () => ({ content: [], structuredContent: { celsius: 4 } }) },
  grow: {
    run() {
      tools.grown = { run: () => text('new here') };
      write({ method: 'notifications/tools/list_changed' });
      return text('grown');
    },
  },
  'dots.and/slashes': { run: () => text('odd name') },
  ['long_'.repeat(20)]: { run: () => text('long name') },
  broken: { inputSchema: { type: 'object', properties: { a: { type: 'nothing' } } }, run: () => text('never seen') },
  read: { annotations: { readOnlyHint: true }, run: () => text('read') },
  put: { annotations: { idempotentHint: true, destructiveHint: false }, run: () => text('put') },
  drop: { annotations: { destructiveHint: true }, run: () => text('dropped') },
  slow_read: { annotations: { readOnlyHint: true }, run: () => slowly('slow_read') },
  slow_drop: { annotations: { destructiveHint: true }, run: () => slowly('slow_drop') },
  slow_send: { run: () => slowly('slow_send') },
  ask: {
    async run() {
      note('ask begins');
      const { result, error } = await request('elicitation/create', { message: 'Who are you?', requestedSchema: name });
      note(`ask answered ${JSON.stringify(result)}`);
      return text(result ?? error.message);
    },
  },
  ask_twice: {
    async run() {
      note('ask_twice begins');
      const first = await request('elicitation/create', { message: 'First?', requestedSchema: name });
      const second = await request('elicitation/create', { message: 'Second?', requestedSchema: name });
      return text([first.result.content, second.result.content]);
    },
  },
  sign_in: {
    async run() {
      const params = { mode: 'url', message: 'Sign in', url: 'https://bank.test/login', elicitationId: 'e1' };
      return text((await request('elicitation/create', params)).result);
    },
  },
  sample: {
    inputSchema: object({ times: { type: 'integer' } }),
    async run({ times = 1 }) {
      const params = {
        systemPrompt: 'Be brief.',
        messages: [{ role: 'user', content: { type: 'text', text: 'Say something.' } }],
        maxTokens: 5_000,
      };
      const answers = [];
      for (let n = 0; n < times; n++) answers.push(await request('sampling/createMessage', params));
      return text(answers.map(({ result, error }) => result?.content.text ?? error.message));
    },
  },
  roots: { run: async () => text((await request('roots/list')).result ?? 'none') },
};

/** What the protocol does not allow as a tool. */
const malformed = [
  { name: 'listless', inputSchema: { type: 'array' } },
  { description: 'It has no name.', inputSchema: object() },
  null,
];

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    serverInfo: { name: 'odd', version: '1' },
    capabilities: { tools: { listChanged: true } },
  }),
  ping: () => ({}),
  'tools/list': ({ cursor }) => {
    const all = Object.entries(tools).map(([toolName, { inputSchema = object(), annotations, outputSchema }]) => {
      return { name: toolName, description: `Does ${toolName}.`, inputSchema, annotations, outputSchema };
    });
    const half = Math.ceil(all.length / 2);
    if (cursor === undefined) return { tools: all.slice(0, half), nextCursor: '2' };
    return { tools: [...all.slice(half), ...malformed] };
  },
  'tools/call': (params, id) => tools[params.name].run(params.arguments ?? {}, params, id),
};

async function answer({ id, method, params = {}, result, error }) {
  if (method === undefined) return waiting.get(id)?.({ result, error });
  if (method === 'notifications/cancelled') {
    canceled.add(params.requestId);
    return note(`cancelled ${params.requestId}`);
  }
  if (id === undefined || silent) return;
  if (method === 'server/discover' && BEFORE) {
    note('asked for its revisions');
    return BEFORE === 'exit' ? process.exit(1) : undefined;
  }
  try {
    write({ id, result: await methods[method](params, id) });
  } catch (thrown) {
    write({ id, error: { code: -32_603, message: thrown.message } });
  }
}

note(`started ${process.pid}`);
createInterface({ input: process.stdin }).on('line', (line) => answer(JSON.parse(line)));
if (STUBBORN) {
  process.on('SIGTERM', () => note('deaf to SIGTERM'));
  setInterval(() => {}, 1_000);
  const child = spawn(process.execPath, [
    '-e',
    'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); console.log("up")',
  ]);
  child.stdout.once('data', () => note(`grandchild ${child.pid}`));
} else process.stdin.on('end', () => process.exit(0));
