import { createHash } from 'node:crypto';
import { AgentLoopError, isSuspended, type ToolContext, taskIdPattern } from '../core/contracts/index.ts';
import { kindAbove, type TurnResult } from '../core/journal/index.ts';
import { childResult, type ParentTurn, parentTurnOf, TurnLost, withParent } from '../core/ownership/index.ts';
import { AgentLoop, givenByCaller } from '../core/turn/index.ts';
import type { Agent } from './agent.ts';
import type { AgentResumeOptions } from './agent-options.ts';
import type { TurnInput } from './turn-input.ts';

/**
 * Runs the agent's turn of a tool call, a child turn with a journal in the store of the parent turn and a fresh context; its task id is the
 * call's idempotency key. A call that runs again continues the turn that there is. What the turn asks is asked by the call; answers go to it.
 */
export async function runSubAgent(agent: Agent, input: TurnInput, context: ToolContext): Promise<TurnResult> {
  const parent = parentTurnOf(context);
  if (!parent) {
    const message = `Agent "${agent.id}" was called as a tool with a copy of the tool context; hand on the context that the tool was given.`;
    throw new AgentLoopError('INVALID_INPUT', message);
  }
  const taskId = childTaskId(context.idempotencyKey);
  const shared = sharedWith(context);
  const { metadata } = context;
  const start = withParent({ ...shared, taskId, contextId: taskId, metadata }, parent);
  let result = await childResult(parent, () => agent.startTurn(input, start));
  let asked = 0;
  while (isSuspended(result.status)) {
    const [question] = result.questions;
    const prompt =
      question?.prompt ??
      `Agent ${agent.name}: ${question ? `${question.kind} of ${question.toolName}` : result.reason}`;
    const kind = question ? kindAbove(question) : 'input';
    const ask = () => context.ask({ kind, prompt, data: { agentId: agent.id, taskId, ...(question && { question }) } });
    // The child turn has the answers to its earlier questions.
    for (const before = await suspensions(agent, parent, taskId); asked < before - 1; asked++) ask();
    const answer = ask();
    asked++;
    const answers: AgentResumeOptions['answers'] = question ? { [question.id]: answer } : {};
    const resume = (given: AgentResumeOptions) => agent.resume(taskId, withParent({ ...shared, ...given }, parent));
    try {
      result = await childResult(parent, () => resume({ answers }));
    } catch (error) {
      if (!refusesAnswer(error) || !parent.store) throw error;
      await AgentLoop.cancel(taskId, { store: parent.store, clock: parent.clock, reason: error.cause.message });
      // What the turn used is counted before the call fails.
      await childResult(parent, () => resume({})).catch(() => undefined);
      throw error.cause;
    }
  }
  return result;
}

/**
 * The journal of the parent turn has an answer that the child turn does not accept, as one of a version that did not check it. It cannot be
 * changed, so each resume would be lost with it: the call fails instead, and the model can call again.
 */
function refusesAnswer(error: unknown): error is TurnLost & { readonly cause: AgentLoopError } {
  return TurnLost.isInstance(error) && AgentLoopError.isInstance(error.cause) && error.cause.code === 'INVALID_INPUT';
}

function sharedWith(context: ToolContext): AgentResumeOptions {
  return { parentContext: context.traceContext, ...givenByCaller(context) };
}

/** How often the turn has suspended; each time but the last it was answered. */
async function suspensions(agent: Agent, { store }: ParentTurn, taskId: string): Promise<number> {
  if (store) return (await store.read(taskId)).filter(({ type }) => type === 'turn.suspended').length;
  const message = `Agent "${agent.id}" waits for an answer, and no store keeps its turn; give the calling agent a taskStateStore.`;
  throw new AgentLoopError('INVALID_CONFIG', message, { taskId });
}

/** The task of a call: the same in every attempt. */
export function childTaskId(idempotencyKey: string): string {
  return taskIdPattern.test(idempotencyKey)
    ? idempotencyKey
    : createHash('sha256').update(idempotencyKey).digest('hex');
}
