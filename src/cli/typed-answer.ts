import { innermostQuestion, type Question } from '../core/journal/index.ts';
import { answerFlaw } from '../core/options/index.ts';

/** What was typed, as the answer to a question; or what is wrong with it. */
export type TypedAnswer = { readonly answer: unknown } | { readonly flaw: string };

/** What may be typed, for the prompt. */
export function answerHint(question: Question): string {
  const asking = innermostQuestion(question);
  switch (asking.kind) {
    case 'approval':
      return 'y, n, or n and why';
    case 'in-doubt':
      return 'y and its result, n to run it again, ? if unknown';
    case 'client-tool':
      return 'its result, or /fail and a reason';
    case 'auth':
      return urlOf(asking) === undefined ? 'answer, not shown' : 'y once you have been there, or n';
    case 'input':
      return formField(asking)?.type === 'boolean' ? 'y or n' : 'answer';
  }
}

/** Whether the answer is nobody else's to read. */
export function isSecret(question: Question): boolean {
  const asking = innermostQuestion(question);
  return asking.kind === 'auth' && urlOf(asking) === undefined;
}

/**
 * Reads a line as the answer to a question: `y` and `n` where it is about yes and no; else text, or JSON where it begins as an object,
 * an array or a string of JSON.
 */
export function typedAnswer(question: Question, line: string): TypedAnswer {
  const text = line.trim();
  const asking = innermostQuestion(question);
  const typed = readAs(asking, text);
  if ('flaw' in typed) return typed;
  const flaw = answerFlaw(question, typed.answer);
  return flaw === undefined ? typed : { flaw };
}

function readAs(asking: Question, text: string): TypedAnswer {
  const { yes, no, rest } = /^(?:(?<yes>y|yes)|(?<no>n|no))(?:[\s,:]+(?<rest>.*))?$/is.exec(text)?.groups ?? {};
  switch (asking.kind) {
    case 'approval':
      if (yes !== undefined && !rest) return { answer: { approved: true } };
      if (no !== undefined) return { answer: { approved: false, ...(rest && { reason: rest }) } };
      return { flaw: 'answer y to run it, or n, or n and a reason' };
    case 'in-doubt':
      if (yes !== undefined)
        return { answer: { outcome: 'applied', content: rest || 'It took effect; its result is unknown.' } };
      if (no !== undefined && !rest) return { answer: { outcome: 'not-applied' } };
      if (text === '?') return { answer: { outcome: 'unknown' } };
      return { flaw: 'answer y (and its result) if it took effect, n to run it again, ? if unknown' };
    case 'client-tool':
      return clientResult(text);
    case 'auth':
      if (urlOf(asking) === undefined) return valueIn(text);
      if (yes !== undefined || no !== undefined) return { answer: yes !== undefined };
      return { flaw: 'answer y once you have been there, or n' };
    case 'input':
      return inputOf(asking, text, yes === undefined && no === undefined ? undefined : yes !== undefined);
  }
}

function clientResult(text: string): TypedAnswer {
  const { why } = /^\/fail(?:\s+(?<why>.*))?$/s.exec(text)?.groups ?? {};
  if (why !== undefined) return { answer: { error: why } };
  if (text === '/fail') return { flaw: 'say why it failed: /fail the printer is out of paper' };
  const value = valueIn(text);
  return 'flaw' in value ? value : { answer: { result: value.answer } };
}

function inputOf(asking: Question, text: string, agreed: boolean | undefined): TypedAnswer {
  const field = formField(asking);
  if (field?.type === 'boolean') return agreed === undefined ? { flaw: 'answer y or n' } : { answer: agreed };
  if (field?.type === 'number' || field?.type === 'integer') {
    const number = Number(text);
    return text === '' || Number.isNaN(number) ? { flaw: 'answer with a number' } : { answer: number };
  }
  return valueIn(text);
}

function valueIn(text: string): TypedAnswer {
  if (text === '') return { flaw: 'the answer is empty; type "" for an empty string, or /cancel to stop the turn' };
  if (!/^[{["]/.test(text)) return { answer: text };
  try {
    return { answer: JSON.parse(text) };
  } catch {
    return text.startsWith('{')
      ? { flaw: 'the answer begins like a JSON object but cannot be parsed' }
      : { answer: text };
  }
}

/** The address that an MCP server wants its user to go to. */
function urlOf({ data }: Question): string | undefined {
  const url = memberOf(data, 'url');
  return typeof url === 'string' ? url : undefined;
}

/** The field of a form that has one. */
function formField({ data }: Question): { readonly type: unknown } | undefined {
  const properties = memberOf(memberOf(data, 'requestedSchema'), 'properties');
  if (typeof properties !== 'object' || properties === null) return undefined;
  const [field, ...others] = Object.values(properties);
  return field === undefined || others.length > 0 ? undefined : { type: memberOf(field, 'type') };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
