import {
  type Agent,
  AgentLoop,
  AgentLoopError,
  agent,
  agentTools,
  branch,
  type Clock,
  compactHistory,
  type Extension,
  type LLMProvider,
  type Message,
  type TaskStateStore,
  type Team,
  type Turn,
  team,
  textOf,
} from 'millrace';
import type { AgentSettings } from 'millrace/types';
import { type PlainTool, plainTools } from '../core/plain-tools.ts';

/** What one process has: it dies, and the next one gets a set of its own. */
export interface Process {
  readonly store: TaskStateStore;
  readonly clock: Clock;
  /** Called with the idempotency key of each tool call that runs. */
  readonly ran: (key: string) => void;
  /** How many model calls fail, with an error that passes, before the others. */
  readonly failures: number;
}

type Starter = Agent | Team;

/** A turn `t`, by which journals are recorded and resumed. Uses the public API alone, as any version has it. */
export interface KnownTurn {
  /** The agent that runs it. Its models and tools say the same in every process. */
  readonly runner: (process: Process) => Starter;
  /** By question id. */
  readonly answers?: Readonly<Record<string, unknown>>;
  /** What it asks, each time that it waits for answers. */
  readonly asks?: readonly string[];
  /** What happens before the turn is resumed for the first time. Absent: it is started. */
  readonly begin?: (process: Process) => Promise<unknown>;
  /** Model calls that fail where it is recorded. */
  readonly failures?: number;
}

export const taskId = 't';
export const question = [{ role: 'user', content: 'How many apples?' }] as const;
/** The tool whose calls in doubt do not run again. */
export const unrepeatable = 'pay';

type Call = readonly [tool: string, given?: object];
type Said = string | readonly Call[] | { readonly text: string; readonly calls: readonly Call[] };

const usageOf = (n: number) => ({ promptTokens: 10 * n, completionTokens: n, totalTokens: 11 * n });

/** A model that says the n-th thing after n − 1 answers, or what `next` says of a request. */
function model(
  { failures }: Pick<Process, 'failures'>,
  next: readonly Said[] | ((messages: readonly Message[]) => Said),
): LLMProvider {
  let left = failures;
  return {
    async call({ messages }) {
      const n = messages.filter(({ role }) => role === 'assistant').length;
      if (n > 0 && left-- > 0)
        throw new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down', { retryable: true, status: 429 });
      const said = typeof next === 'function' ? next(messages) : (next[n] ?? 'There is no more to say.');
      const { text = null, calls = [] } =
        typeof said === 'string' ? { text: said } : 'calls' in said ? said : { calls: said };
      const toolCalls = calls.map(([name, given = {}], index) => ({
        id: `${name}-${n}-${index}`,
        type: 'function' as const,
        function: { name, arguments: JSON.stringify(given) },
      }));
      return {
        message: { role: 'assistant', content: text },
        ...(toolCalls.length > 0 && { toolCalls }),
        usage: usageOf(n + 1),
      };
    },
  };
}

/** Tools of which all but `pay` may run again. */
function toolsOf({ ran }: Process) {
  const later =
    (text: string): Extract<PlainTool, (...given: never[]) => unknown> =>
    async ({ idempotencyKey }) => {
      ran(idempotencyKey);
      await new Promise((resolve) => setImmediate(resolve));
      return text;
    };
  const tools: Readonly<Record<string, PlainTool>> = {
    look: { readOnly: true, execute: later('twelve') },
    count: { idempotent: true, execute: later('12') },
    [unrepeatable]: later('paid'),
    fails: {
      readOnly: true,
      execute({ idempotencyKey }) {
        ran(idempotencyKey);
        throw new RangeError('out of reach');
      },
    },
    spend: { idempotent: true, needsApproval: true, execute: later('spent') },
    asks: {
      idempotent: true,
      execute({ idempotencyKey, ask }) {
        const [colour, number] = [ask({ prompt: 'Which colour?' }), ask({ prompt: 'Which number?' })];
        ran(idempotencyKey);
        return `${colour} ${number}`;
      },
    },
    page: {
      readOnly: true,
      execute({ idempotencyKey, arguments: given }) {
        ran(idempotencyKey);
        return `page ${Reflect.get(Object(given), 'n')} ${'o'.repeat(1_200)}`;
      },
    },
  };
  return plainTools(tools);
}

/** An agent with these tools, which says the same in every process. */
function agentOf(process: Process, id: string, said: Parameters<typeof model>[1], parts: Partial<AgentSettings> = {}) {
  const { store, clock } = process;
  return agent({
    id,
    provider: model(process, said),
    toolProviders: [toolsOf(process)],
    taskStateStore: store,
    clock,
    contextId: 'c',
    toolConcurrency: 2,
    contextManagement: null,
    ...parts,
  });
}

export function begun(runner: Starter): Turn {
  return runner.startTurn([...question], { taskId });
}

/** A team first looks who runs the turn. */
export async function resumedBy(runner: Starter, answers?: Readonly<Record<string, unknown>>): Promise<Turn> {
  return runner.resume(taskId, answers ? { answers } : {});
}

const plain: readonly Said[] = [
  [['look'], ['look', { at: 'pears' }], ['count']],
  { text: 'Now I pay.', calls: [[unrepeatable], ['fails'], ['unknown']] },
  [['count', { again: true }]],
  'Twelve apples.',
];
const plainRunner = (process: Process) => agentOf(process, 'ada', plain);

const to = (name: string): Call => [name, { message: 'Go.' }];

/** Three agents: `ada` asks `bo` and `cy`, and `bo` asks `cy`. */
function family(process: Process, said: { readonly ada: readonly Said[]; readonly cy: readonly Said[] }): Agent {
  const cy = agentOf(process, 'cy', said.cy);
  const withTools = (...others: readonly Agent[]) => ({ toolProviders: [toolsOf(process), agentTools(others)] });
  const bo = agentOf(process, 'bo', [[to('cy'), ['look']], 'bo is done.'], withTools(cy));
  return agentOf(process, 'ada', said.ada, withTools(bo, cy));
}

/** Lets an agent look at the turn after the first iteration. */
function reviewed(process: Process): Extension {
  const reader = agentOf(process, 'reader', () => 'It is right.');
  return {
    name: 'review',
    async afterIteration(context) {
      if (context.iteration !== 1) return undefined;
      const { text } = await branch(context, { agent: reader, messages: [{ role: 'user', content: 'Is it right?' }] });
      return { messages: [{ role: 'user', content: text }] };
    },
  };
}

/** Reads four pages, of which the first ones are summarised. */
const paged = (messages: readonly Message[]): Said => {
  const last = /^page (\d)/.exec(textOf(messages.at(-1)?.content ?? ''))?.[1] ?? '0';
  return last === '4' ? 'I have read it.' : [['page', { n: Number(last) + 1 }]];
};

export const knownTurns: Readonly<Record<string, KnownTurn>> = {
  plain: { runner: plainRunner },
  questions: {
    runner: (process) =>
      agentOf(process, 'ada', [[['look'], ['spend', { cents: 25 }], ['asks']], [['spend', { cents: 99 }]], 'Enough.']),
    answers: {
      '1:1': { approved: true },
      '1:2': 'blue',
      '1:2.2': 'seven',
      '2:0': { approved: false, reason: 'too much' },
    },
    asks: ['approval of spend, input of asks', 'input of asks', 'approval of spend'],
  },
  'hand-off': {
    runner: (process) =>
      team({
        agents: [
          agentOf(process, 'ada', [[['look']], [['hand_off', { agentId: 'bo', note: 'Your turn.' }]]]),
          agentOf(process, 'bo', () => 'Twelve, says bo.', { description: 'Counts.' }),
        ],
        contextId: 'c',
        handOff: true,
      }),
  },
  children: {
    runner: (process) =>
      family(process, { ada: [[to('bo'), to('cy'), ['count']], 'All are done.'], cy: [[['count']], 'cy is done.'] }),
  },
  'child-questions': {
    runner: (process) =>
      family(process, { ada: [[to('bo')], 'Spent.'], cy: [[['spend', { cents: 5 }]], 'cy has spent.'] }),
    answers: { '1:0': { approved: true } },
    asks: ['approval of spend'],
  },
  branch: {
    runner: (process) => agentOf(process, 'ada', [[['count']], 'Twelve.'], { extensions: [reviewed(process)] }),
  },
  backoff: {
    runner: (process) =>
      agentOf(process, 'ada', [[['count']], 'Twelve.'], {
        retry: null,
        retryPlan: { attempts: 4, delayMs: 1_000, maxDelayMs: 4_000 },
      }),
    failures: 2,
  },
  fork: {
    runner: plainRunner,
    async begin(process) {
      await plainRunner(process)
        .startTurn([...question], { taskId: 'old' })
        .result();
      const edits = { results: { '1:2': { content: '13' } } };
      await AgentLoop.fork('old', { store: process.store, at: 1, taskId, edits, clock: process.clock });
    },
  },
  submitted: {
    runner: plainRunner,
    begin: (process) => agentOf(process, 'ada', plain).submit([...question], { taskId }),
  },
  output: {
    runner: (process) =>
      agentOf(process, 'ada', [[['count']], [['__finish__', { apples: 'many' }]], [['__finish__', { apples: 12 }]]], {
        outputSchema: { type: 'object', properties: { apples: { type: 'integer' } }, required: ['apples'] },
      }),
  },
  compaction: {
    runner(process) {
      const provider = model(process, () => 'Pages were read.');
      const compact = compactHistory({ contextWindow: 1_000, keepLast: 2, provider });
      return agentOf(process, 'ada', paged, { extensions: [compact] });
    },
  },
  summary: {
    runner: (process) =>
      agentOf(process, 'ada', [[['count']], 'I counted twelve.'], { maxIterations: 1, onLimit: 'summarize' }),
  },
};
