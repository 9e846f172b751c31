import type { CallToolResult, InputRequiredResult } from '@modelcontextprotocol/server';
import { AgentLoopError, isObject, isSuspended } from '../../core/contracts/index.ts';
import type { Question, TurnResult } from '../../core/journal/index.ts';
import { contextFromCarrier } from '../../observability/trace-carrier.ts';
import type { Turn } from '../../tasks/turn.ts';
import type { Answers, CallingClient } from './ask-client.ts';
import type { ServedAgent } from './served-agent.ts';
import { TurnProgress } from './turn-progress.ts';

/** A turn that waits, as the retry of its call finds it. */
export interface WaitingTurn {
  readonly taskId: string;
  /** The cursor of the last event that the client had. */
  readonly cursor?: string | undefined;
}

/**
 * What became of the questions of a turn: their `answers`, or the `result` of the call, which the client retries with the answers. Undefined
 * if nobody answers.
 */
export type Asked = { readonly answers: Answers } | { readonly result: InputRequiredResult } | undefined;

export interface TurnOfCall {
  readonly served: ServedAgent;
  readonly client: CallingClient;
  readonly message: string;
  /** Of all contexts of the caller. */
  readonly group: string;
  /** Undefined for a turn without a history. */
  readonly conversation: string | undefined;
  /** Whether the tool has declared a schema of the value. */
  readonly hasOutput: boolean;
  /** The turn that a retry continues. Default: a new one. */
  readonly waiting?: WaitingTurn | undefined;
  /** Has the questions of a suspended turn answered. */
  ask(questions: readonly Question[], waiting: WaitingTurn): Promise<Asked>;
}

/** Runs a turn for a call: shows its progress, has its questions answered, and gives its result. Never rejects. */
export async function turnOfCall(call: TurnOfCall): Promise<CallToolResult | InputRequiredResult> {
  const { served, message, client, waiting, group, conversation } = call;
  const { agent } = served;
  const shared = { parentContext: contextFromCarrier(client.meta), signal: client.signal };
  const ownId = waiting?.taskId ?? crypto.randomUUID();
  const contextId = `${group}:${conversation === undefined ? `call.${ownId}` : `chat.${conversation}`}`;
  const known = conversation === undefined ? {} : { contextId };
  const progress = new TurnProgress(client, waiting?.cursor);
  // A retry that comes twice finds the turn running; both get the result.
  const resumed = () => ({ ...shared, ...known, onBusy: 'wait' as const, from: progress.cursor });
  let turn: Turn | undefined;
  try {
    turn = waiting
      ? agent.resume(waiting.taskId, resumed())
      : agent.startTurn(message, { ...shared, taskId: ownId, contextId });
    for (;;) {
      const result = await ending(turn, progress);
      if (!isSuspended(result.status)) return answerOf(result, call.hasOutput);
      const { taskId } = turn;
      const asked = await call.ask(result.questions, { taskId, cursor: progress.cursor });
      if (asked === undefined) return await unanswered(result, call);
      if ('result' in asked) return asked.result;
      turn = agent.resume(taskId, { ...resumed(), answers: asked.answers });
    }
  } catch (thrown) {
    return failure(thrown);
  } finally {
    progress.close();
    // Nobody can name the conversation of a call that named none.
    if (conversation === undefined) void turn?.settled.then(() => served.ownMessages?.delete(contextId));
  }
}

async function ending(turn: Turn, progress: TurnProgress): Promise<TurnResult> {
  const reading = turn.subscribe({ next: (event) => progress.show(event), error: () => {} });
  try {
    return await turn.result();
  } finally {
    reading.unsubscribe();
  }
}

function answerOf({ text, value, taskId }: TurnResult, hasOutput: boolean): CallToolResult {
  const _meta = { 'millrace/task-id': taskId };
  if (value === undefined) return { content: [{ type: 'text', text }], _meta };
  const json = JSON.stringify(value);
  const content = [{ type: 'text' as const, text: json }];
  const structured: unknown = JSON.parse(json);
  return hasOutput && isObject(structured) ? { content, structuredContent: structured, _meta } : { content, _meta };
}

/** Cancels a turn that no other process can resume, and one whose client has cancelled or disconnected. */
async function unanswered({ taskId, questions }: TurnResult, { served, client }: TurnOfCall): Promise<CallToolResult> {
  const what = [...new Set(questions.map(({ kind, toolName }) => `${kind} of ${toolName}`))].join(', ') || 'somebody';
  const { aborted } = client.signal;
  if (aborted || !served.keepUnanswered) {
    await served.agent.cancel(taskId, aborted ? 'the client left' : 'nobody answered').catch(() => {});
    return failedCall(`The agent needs an answer that it did not get (${what}).`, taskId);
  }
  return failedCall(
    `The agent waits for an answer that this client did not give (${what}); its task is ${taskId}.`,
    taskId,
  );
}

/** The code alone: what an error says may be nobody's business. */
function failure(thrown: unknown): CallToolResult {
  const code = AgentLoopError.isInstance(thrown) ? thrown.code : 'INTERNAL';
  const taskId = AgentLoopError.isInstance(thrown) ? thrown.taskId : undefined;
  if (code === 'AGENT_BUSY')
    return failedCall('Another call of this conversation still runs; wait for it, or use another one.', taskId);
  return failedCall(`The agent could not finish (${code}).`, taskId);
}

/** A call that failed, in words for the client's model. */
export function failedCall(text: string, taskId?: string): CallToolResult {
  const _meta = taskId === undefined ? {} : { _meta: { 'millrace/task-id': taskId } };
  return { isError: true, content: [{ type: 'text', text }], ..._meta };
}
