import type { Agent } from '../agent/agent.ts';
import {
  AgentLoopError,
  checkMessages,
  isObject,
  type Message,
  systemClock,
  type TaskStateStore,
} from '../core/contracts/index.ts';
import { replay } from '../replay/replay.ts';
import { AgentLoop } from '../tasks/agent-loop.ts';
import { retryTask } from '../tasks/retry-task.ts';
import { type CountsFor, steerTask } from '../tasks/steered.ts';
import { malformed, Refusal } from '../ui/requests.ts';
import type { Journals } from './journals.ts';
import type { ReplayReport } from './wire.ts';

/** How long an owner in another process may take. Milliseconds. */
const patienceMs = 10_000;
const longestReason = 1_000;

export interface ActionDeps {
  readonly store: TaskStateStore;
  readonly journals: Journals;
  readonly agent: Agent | undefined;
}

type Body = Readonly<Record<string, unknown>>;

/** What an action answers: the task to show then. */
interface Done {
  readonly taskId: string;
  /** Whether this process runs the turn now. */
  readonly runs: boolean;
  /** Which turn reads a message, with the limits of the agent. */
  readonly expected?: CountsFor;
}

/** Each changes the store; `resume` and what follows a fork, a retry or an answer runs the turn here where there is an agent for it. */
export const actions: Readonly<Record<string, (taskId: string, body: Body, deps: ActionDeps) => Promise<Done>>> = {
  async cancel(taskId, body, { store }) {
    const reason = textIn(body, 'reason') ?? 'canceled in the inspector';
    await AgentLoop.cancel(taskId, { store, reason: reason.slice(0, longestReason), deadlineMs: patienceMs });
    return { taskId, runs: false };
  },
  async answer(taskId, body, deps) {
    const { answers } = body;
    if (!isObject(answers)) throw malformed('answers must be an object by question id.');
    const given: Readonly<Record<string, unknown>> = Object.fromEntries(Object.entries(answers));
    await AgentLoop.answer(taskId, { store: deps.store, answers: given, deadlineMs: patienceMs });
    return runIfPossible(taskId, deps);
  },
  async steer(taskId, body, { store, agent }) {
    const text = textIn(body, 'text');
    if (text === undefined) throw malformed('text must be a string.');
    const message: Message = { role: 'user', content: text };
    checkMessages([message]);
    const id = crypto.randomUUID();
    const { expected } = await steerTask(taskId, message, { store, id, config: agent?.options ?? {} });
    const isOwn = (await store.describe(taskId))?.agentId === agent?.id;
    return { taskId, runs: false, ...(isOwn && { expected }) };
  },
  async fork(taskId, body, deps) {
    const { at, edits, run = true, ...others } = body;
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) throw malformed(`${unknown} is not an option of a fork: at, edits, run.`);
    if (typeof at !== 'number') throw malformed('at must be the number of the last iteration to keep.');
    // The core checks both.
    const forked = await AgentLoop.fork(taskId, { store: deps.store, at, ...(isObject(edits) && { edits }) });
    return run === true ? runIfPossible(forked.taskId, deps) : { taskId: forked.taskId, runs: false };
  },
  async retry(taskId, _, deps) {
    const newTaskId = crypto.randomUUID();
    await retryTask(taskId, { store: deps.store, newTaskId, contextId: undefined, clock: systemClock });
    return runIfPossible(newTaskId, deps);
  },
  async resume(taskId, _, deps) {
    const { agent } = await agentFor(taskId, deps);
    return run(taskId, agent, deps);
  },
};

/** Runs the recorded turn again, with the tools, the prompt and the limits of the agent. No tool runs, nothing is written. */
export async function replayed(taskId: string, deps: ActionDeps): Promise<ReplayReport> {
  const { agent } = await agentFor(taskId, deps);
  const { records } = await deps.journals.read(taskId);
  const { systemPrompt, maxIterations } = agent.options;
  const config = {
    toolProviders: agent.toolProviders,
    // What a function would give is in the recording.
    ...(typeof systemPrompt === 'string' && { systemPrompt }),
    ...(maxIterations !== undefined && { maxIterations }),
  };
  const { deviations, records: again } = await replay(records, config, { mode: 'forgiving' }).result();
  return { records: again.length, deviations };
}

/** The agent, where the turn is one of its own. Errors: `Refusal` with 409. */
async function agentFor(taskId: string, { store, agent }: ActionDeps): Promise<{ readonly agent: Agent }> {
  const task = await store.describe(taskId);
  if (task === null) throw new AgentLoopError('NOT_FOUND', `There is no task "${taskId}".`, { taskId });
  if (!agent) throw new Refusal(409, 'CONFLICT', 'The inspector has no agent; start it with one (--agent FILE).');
  if (task.agentId === agent.id && task.parentTaskId === undefined) return { agent };
  const whose = task.parentTaskId === undefined ? `a turn of agent "${task.agentId}"` : 'a child turn';
  throw new Refusal(409, 'CONFLICT', `It is ${whose}; the inspector has agent "${agent.id}".`);
}

/** Runs the turn where there is an agent for it and nobody runs it; else it waits for whoever resumes it. */
async function runIfPossible(taskId: string, deps: ActionDeps): Promise<Done> {
  const task = await deps.store.describe(taskId);
  const { agent } = deps;
  const isOwn = task?.agentId === agent?.id && task?.parentTaskId === undefined;
  return agent && isOwn && !task?.held ? run(taskId, agent, deps) : { taskId, runs: false };
}

/** Resolves once the turn runs here: its owner has written its first record. Errors: those of the resume. */
async function run(taskId: string, agent: Agent, { store }: ActionDeps): Promise<Done> {
  const seq = (await store.describe(taskId))?.seq ?? 0;
  const turn = agent.resume(taskId, { detached: true });
  const settled = turn.settled;
  await new Promise<void>((resolve, reject) => {
    const written = store.follow(taskId, { from: seq + 1 }).subscribe({
      next: ({ type }) => type === 'record' && resolve(),
      error: reject,
      complete: resolve,
    });
    settled.then(resolve, reject).finally(() => written.unsubscribe());
  });
  return { taskId, runs: true };
}

function textIn(body: Body, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || (typeof value === 'string' && value.trim() !== '')) return value as string | undefined;
  throw malformed(`${name} must be a string with text.`);
}
