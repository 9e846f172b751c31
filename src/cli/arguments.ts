import { InvalidArgumentError } from 'commander';
import { AgentLoopError, isReasoning, type Reasoning, taskIdPattern } from '../core/contracts/index.ts';

/** Reads a whole number from `least` on, for an option of the command line. */
export function wholeNumber(least: number, most: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    const good = /^\d+$/.test(text) && value >= least && value <= most;
    if (good) return value;
    const limits = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`It must be a whole number ${limits}.`);
  };
}

/** Reads an http or https address, for an option of the command line. */
export function httpUrl(example: string): (text: string) => string {
  return (text) => {
    if (isHttpUrl(text)) return text;
    throw new InvalidArgumentError(`It must be an http or https address, like ${example}.`);
  };
}

export function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol } = new URL(text);
  return protocol === 'http:' || protocol === 'https:';
}

/** Reads the id of a task or of a conversation, for an option of the command line. */
export function idArgument(text: string): string {
  if (taskIdPattern.test(text)) return text;
  throw new InvalidArgumentError('It must be 1 to 128 letters, digits and _ . : - characters.');
}

/** Reads an effort of reasoning, or its budget in tokens, for an option of the command line. */
export function reasoningArgument(text: string): Reasoning {
  const value = /^\d+$/.test(text) ? { budgetTokens: Number(text) } : text;
  if (isReasoning(value)) return value;
  throw new InvalidArgumentError('It must be none, minimal, low, medium, high or a number of tokens from 1.');
}

/** Reads one more value of an option that may be repeated. */
export function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

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

/** An option or a setting that cannot be used: the command exits with 2. */
export function invalidConfig(sentence: string, cause?: unknown): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', sentence, { cause });
}
