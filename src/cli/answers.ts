import { AgentLoopError } from '../core/errors.ts';

/** The answers of `--answer CALL=JSON`, by call id. */
export type Answers = Readonly<Record<string, unknown>>;

/**
 * Reads what `--answer` was given, in any number.
 * @throws AgentLoopError `INVALID_INPUT`, with the form that it has to have.
 */
export function parseAnswers(texts: readonly string[]): Answers {
  const answers = new Map<string, unknown>();
  for (const text of texts) {
    const [callId, answer] = parseAnswer(text);
    if (answers.has(callId)) throw invalid(`--answer names the call ${callId} twice; give one answer`);
    answers.set(callId, answer);
  }
  return Object.fromEntries(answers);
}

function parseAnswer(text: string): readonly [callId: string, answer: unknown] {
  const { callId, json } = /^(?<callId>\d+:\d+)=(?<json>.*)$/s.exec(text)?.groups ?? {};
  if (callId === undefined || json === undefined) {
    throw invalid(`--answer has to be CALL=JSON, like '1:0={"approved":true}'; the calls are in millrace show`);
  }
  try {
    return [callId, JSON.parse(json)];
  } catch {
    throw invalid(
      `the answer to the call ${callId} is not JSON; in a shell, write --answer '${callId}={"approved":true}' or --answer '${callId}="some text"'`,
    );
  }
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}
