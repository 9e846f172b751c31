import type { TurnAnswered, TurnRecord } from '../journal/records.ts';
import { type LoopState, openQuestions } from '../journal/state.ts';
import { answerFlaw, asJson } from '../options/check-answers.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';

/** The next answer that came to a running turn, as a record; those that fit no open question are logged and passed over. */
export function takeReply(deps: TurnDeps, state: LoopState): TurnAnswered | undefined {
  for (let reply = deps.inbox.takeReply(); reply; reply = deps.inbox.takeReply()) {
    const { questionId, command } = reply;
    const question = openQuestions(state).find(({ id }) => id === questionId);
    const answer = asJson(reply.answer);
    if (question && answerFlaw(question, answer) === undefined) {
      const record = { type: 'turn.answered' as const, callId: question.callId, questionId, answer };
      return command === undefined ? record : { ...record, command };
    }
    deps.config.logger.warn('answer passed over', { taskId: deps.turn.taskId, questionId });
  }
  return undefined;
}

/** The messages that the turn received meanwhile, to be added to its history. */
export function steeringRecords(deps: TurnDeps): readonly TurnRecord[] {
  return deps.inbox.takeSteering().map(({ message, command }) => ({
    type: 'x.steer',
    effects: { messages: [message] },
    ...(command === undefined ? {} : { command }),
  }));
}
