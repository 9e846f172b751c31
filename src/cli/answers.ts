import { AgentLoopError } from '../core/contracts/index.ts';

/** The answers of `--answer CALL=JSON`, by call id. */
export type Answers = Readonly<Record<string, unknown>>;

/**
 * Reads what `--answer` was given, in any number.
 * @throws AgentLoopError `INVALID_INPUT`, with the form that it has to have.
 */
export function parseAnswers(texts: readonly string[]): Answers {
  const answers = new Map<string, unknown>();
  for (const text of texts) {
    const [id, answer] = parseAnswer(text);
    if (answers.has(id)) throw invalid(`--answer names the question ${id} twice; give one answer`);
    answers.set(id, answer);
  }
  return Object.fromEntries(answers);
}

function parseAnswer(text: string): readonly [id: string, answer: unknown] {
  const { id, json } = /^(?<id>\d+:\d+(?:\.\d+)?)=(?<json>.*)$/s.exec(text)?.groups ?? {};
  if (id === undefined || json === undefined) {
    throw invalid(`--answer must be CALL=JSON, like '1:0={"approved":true}'; the calls are in millrace show`);
  }
  try {
    return [id, JSON.parse(json)];
  } catch {
    throw invalid(
      `the answer to the question ${id} is not JSON; in a shell, write --answer '${id}={"approved":true}' or --answer '${id}="some text"'`,
    );
  }
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}
