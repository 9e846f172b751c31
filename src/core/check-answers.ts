import { AgentLoopError } from './errors.ts';
import type { Question, TurnAnswered } from './records.ts';
import { shownValue } from './shown-value.ts';
import { type LoopState, openCallIndex, openQuestions } from './state.ts';

/** Answers by call id, e.g. `{ '1:0': { approved: true } }`. */
export type Answers = Readonly<Record<string, unknown>>;

/**
 * The records of answers to a turn's open questions. One that is in the journal already gives none. Errors: `INVALID_INPUT` for a call
 * that asks nothing, naming those that do, and for an answer of the wrong form; `CONFLICT` for a second answer that differs.
 */
export function recordsOfAnswers(state: LoopState, answers: Answers): readonly TurnAnswered[] {
  return Object.entries(answers).flatMap(([callId, answer]) => {
    const pending = state.pendingToolCalls[openCallIndex(state, callId)];
    if (pending?.question && !pending.result) {
      const flaw = answerFlaw(pending.question, answer);
      if (flaw !== undefined) throw invalid(state, flaw);
      return [{ type: 'turn.answered' as const, callId, answer }];
    }
    const given = pending?.answers.at(-1);
    if (!given) throw invalid(state, `call ${shownValue(callId)} asks nothing; ${openOnes(state)}`);
    if (JSON.stringify(given.answer) === JSON.stringify(answer)) return [];
    throw new AgentLoopError(
      'CONFLICT',
      `Call "${callId}" of task "${state.turn.taskId}" was answered otherwise before.`,
      {
        taskId: state.turn.taskId,
      },
    );
  });
}

/** What is wrong with an answer, and what it should be; `undefined` where it fits its question. */
export function answerFlaw({ callId, kind }: Question, answer: unknown): string | undefined {
  const who = `the answer to call "${callId}"`;
  if (!isJson(answer)) return `${who} is not JSON; give text, numbers, lists or plain objects`;
  const fields: Readonly<Record<string, unknown>> = typeof answer === 'object' && answer !== null ? { ...answer } : {};
  switch (kind) {
    case 'approval':
      if (typeof fields['approved'] === 'boolean') return reasonFlaw(who, fields['reason']);
      return `${who} must be { "approved": true } or { "approved": false, "reason": "…" }`;
    case 'in-doubt':
      if (fields['outcome'] === 'not-applied' || fields['outcome'] === 'unknown') return undefined;
      if (fields['outcome'] === 'applied' && typeof fields['content'] === 'string') return undefined;
      return `${who} must be { "outcome": "applied", "content": "…" }, { "outcome": "not-applied" } or { "outcome": "unknown" }`;
    case 'client-tool':
      if ('result' in fields !== 'error' in fields && typeof (fields['error'] ?? '') === 'string') return undefined;
      return `${who} must be { "result": … } or { "error": "…" }`;
    case 'input':
    case 'auth':
      return undefined;
  }
}

/** Whether a value comes back from JSON; `undefined` does not. */
export function isJson(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

function reasonFlaw(who: string, reason: unknown): string | undefined {
  return reason === undefined || typeof reason === 'string' ? undefined : `the reason of ${who} must be a text`;
}

function openOnes(state: LoopState): string {
  const open = openQuestions(state).map(({ callId, kind, toolName }) => `"${callId}" (${kind}, ${toolName})`);
  return open.length > 0 ? `open questions: ${open.join(', ')}` : 'the turn has no open question';
}

function invalid(state: LoopState, what: string): AgentLoopError {
  const { taskId } = state.turn;
  return new AgentLoopError('INVALID_INPUT', `Task "${taskId}": ${what}.`, { taskId });
}
