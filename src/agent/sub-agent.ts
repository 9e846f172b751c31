import { createHash } from 'node:crypto';
import { AgentLoopError } from '../core/errors.ts';
import type { AgentEvent } from '../core/events.ts';
import { isSuspended } from '../core/state.ts';
import type { Turn } from '../core/turn.ts';
import type { TurnResult } from '../core/turn-result.ts';
import { taskIdPattern } from '../stores/interfaces.ts';
import type { ToolContext } from '../tools/interfaces.ts';
import type { Agent, AgentResumeOptions } from './agent.ts';

/** What a sub-agent does, as the `update` of an `internal:tool-progress` event of the turn above it. */
export interface SubAgentUpdate {
  readonly type: 'sub-agent';
  /** The ids of the agents, from the one that was called to the one whose event it is. */
  readonly path: readonly string[];
  readonly event: AgentEvent;
}

export function isSubAgentUpdate(update: unknown): update is SubAgentUpdate {
  return typeof update === 'object' && update !== null && 'type' in update && update.type === 'sub-agent';
}

/**
 * Runs one turn of an agent for a tool call. The turn is the call's own: one that the call started before a crash goes on, and one that
 * has ended is not run again. Its questions become the call's, one after another.
 */
export async function runSubAgent(agent: Agent, message: string, context: ToolContext): Promise<TurnResult> {
  const taskId = childTaskId(context.idempotencyKey);
  const shared = sharedWith(context);
  const start = { ...shared, taskId, contextId: taskId, metadata: context.metadata };
  let result = await ending(agent, agent.startTurn(message, start), context);
  let asked = 0;
  while (isSuspended(result.status)) {
    const [question] = result.questions;
    const prompt =
      question?.prompt ??
      `Agent ${agent.name}: ${question ? `${question.kind} of ${question.toolName}` : result.reason}`;
    const kind = question?.kind === 'auth' || question?.kind === 'client-tool' ? question.kind : 'input';
    const ask = () => context.ask({ kind, prompt, data: { agentId: agent.id, taskId, ...(question && { question }) } });
    // Answers to earlier questions of the sub-agent come first; it has them.
    for (const before = await suspensions(agent, taskId); asked < before - 1; asked++) ask();
    const answer = ask();
    asked++;
    const answers: AgentResumeOptions['answers'] = question ? { [question.id]: answer } : {};
    result = await ending(agent, agent.resume(taskId, { ...shared, answers }), context);
  }
  return result;
}

function sharedWith({ traceContext, authContext, signal }: ToolContext): AgentResumeOptions {
  return { parentContext: traceContext, signal, ...(authContext && { authContext }) };
}

/** How the turn ends. Where this process shuts down it is left open, and so is the call: it goes on with it. */
async function ending(agent: Agent, turn: Turn, { progress, signal }: ToolContext): Promise<TurnResult> {
  const reading = turn.subscribe({ next: (event) => progress(updateOf(agent, event)), error: () => {} });
  try {
    return await turn.result();
  } catch (error) {
    if (AgentLoopError.isInstance(error) && error.code === 'SHUTDOWN') await aborted(signal);
    throw error;
  } finally {
    reading.unsubscribe();
  }
}

function updateOf({ id }: Agent, event: AgentEvent): SubAgentUpdate {
  const inner = event.kind === 'internal:tool-progress' ? event.update : undefined;
  if (isSubAgentUpdate(inner)) return { ...inner, path: [id, ...inner.path] };
  return { type: 'sub-agent', path: [id], event };
}

/** How often the turn has suspended; each time but the last it was answered. */
async function suspensions(agent: Agent, taskId: string): Promise<number> {
  const store = agent.options.taskStateStore;
  if (store) return (await store.read(taskId)).filter(({ type }) => type === 'turn.suspended').length;
  const message = `Agent "${agent.id}" waits for an answer, and nothing keeps its turn meanwhile; give it a taskStateStore.`;
  throw new AgentLoopError('INVALID_CONFIG', message, { taskId });
}

/** The task of a call: the same in every attempt. */
export function childTaskId(idempotencyKey: string): string {
  return taskIdPattern.test(idempotencyKey)
    ? idempotencyKey
    : createHash('sha256').update(idempotencyKey).digest('hex');
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
