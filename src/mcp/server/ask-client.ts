import { isDeepStrictEqual } from 'node:util';
import type {
  ClientCapabilities,
  ElicitRequestFormParams,
  ElicitRequestURLParams,
  ElicitResult,
  InputRequests,
  Notification,
  RequestMeta,
} from '@modelcontextprotocol/server';
import { headOf, innermostQuestion } from '../../core/contracts/index.ts';
import type { Question } from '../../core/journal/index.ts';

type Elicitation = ElicitRequestFormParams | ElicitRequestURLParams;

/** The client of one call: what it can do, and the way to it. */
export interface CallingClient {
  readonly capabilities: ClientCapabilities;
  /** Of the call. */
  readonly meta: RequestMeta;
  /** Aborted when it does not want the result any more. */
  readonly signal: AbortSignal;
  notify(notification: Notification): Promise<void>;
  /** Asks its user while the call is open. Only clients before 2026-07-28 can be asked so. */
  elicit(
    params: Elicitation,
    options: { readonly timeout: number; readonly signal: AbortSignal },
  ): Promise<ElicitResult>;
}

/** The answers of a turn, by the questions' ids. */
export type Answers = Readonly<Record<string, unknown>>;

type Form = ElicitRequestFormParams['requestedSchema'];

/** The form of a question, and the conversion of its answer. `undefined`: no answer, and the turn cannot continue here. */
interface Asking {
  readonly params: (message: string) => Elicitation;
  readonly answerOf: (result: ElicitResult) => unknown;
}

const maxShown = 2_000;

/**
 * Asks the user of a client what a turn asks, one question after the other. Undefined where the client cannot ask, or the user does not
 * answer what has to be answered.
 */
export async function askClient(
  questions: readonly Question[],
  client: CallingClient,
  answerTimeoutMs: number,
): Promise<Answers | undefined> {
  const answers: Record<string, unknown> = {};
  for (const question of questions) {
    const answer = await ask(question, client, answerTimeoutMs);
    if (answer === undefined) return undefined;
    answers[question.id] = answer;
  }
  return questions.length === 0 ? undefined : answers;
}

async function ask(question: Question, client: CallingClient, timeout: number): Promise<unknown> {
  // What an agent below asks has the form that its own question wants.
  const inner = innermostQuestion(question);
  const asking = askingOf(inner, client.capabilities);
  if (!asking) return undefined;
  try {
    return asking.answerOf(await client.elicit(asking.params(wordsOf(inner)), { timeout, signal: client.signal }));
  } catch {
    return undefined;
  }
}

/** The requests that ask a client what a turn asks, by the questions' ids. Undefined if it cannot ask one of them, and for no questions. */
export function inputRequestsFor(
  questions: readonly Question[],
  capabilities: ClientCapabilities,
): InputRequests | undefined {
  const requests: InputRequests = {};
  for (const question of questions) {
    const inner = innermostQuestion(question);
    const asking = askingOf(inner, capabilities);
    if (!asking) return undefined;
    requests[question.id] = { method: 'elicitation/create', params: asking.params(wordsOf(inner)) };
  }
  return questions.length === 0 ? undefined : requests;
}

/**
 * The answers that a client gave to questions, of those that it answered. Undefined if its user does not answer what has to be answered.
 */
export function answersIn(
  responses: ReadonlyMap<string, ElicitResult>,
  questions: readonly Question[],
  capabilities: ClientCapabilities,
): Answers | undefined {
  const answers: Record<string, unknown> = {};
  for (const question of questions) {
    const response = responses.get(question.id);
    if (response === undefined) continue;
    const answer = askingOf(innermostQuestion(question), capabilities)?.answerOf(response);
    if (answer === undefined) return undefined;
    answers[question.id] = answer;
  }
  return answers;
}

function wordsOf({ kind, toolName, prompt, data }: Question): string {
  const shown = data === undefined || kind === 'input' || kind === 'auth' ? '' : ` ${shownData(data)}`;
  if (kind === 'approval') return `${prompt ?? `May the agent call ${toolName}?`}${shown}`;
  if (kind === 'client-tool') return `${prompt ?? `The agent wants you to do this: ${toolName}`}${shown}`;
  return `${prompt ?? `${toolName} asks.`}${kind === 'in-doubt' ? shown : ''}`;
}

/** Who decides has to know that there is more. */
function shownData(data: unknown): string {
  const json = JSON.stringify(data);
  const more = json.length - maxShown;
  return more <= 0 ? json : `${headOf(json, maxShown)}… (${more} more characters are not shown)`;
}

function askingOf(question: Question, { elicitation }: ClientCapabilities): Asking | undefined {
  if (!elicitation) return undefined;
  const { kind, data } = question;
  if (kind === 'auth') return elicitation.url ? signIn(question) : undefined;
  if (elicitation.url && !elicitation.form) return undefined;
  if (kind === 'approval') return form(approval, ({ action, content }) => approvalOf(action, content));
  if (kind === 'in-doubt') return form(outcome, ({ action, content }) => outcomeOf(action, content));
  if (kind === 'client-tool') return form(resultForm, ({ action, content }) => clientAnswer(action, content));
  const wanted = formIn(data);
  if (wanted) return form(wanted, (result) => (result.action === 'cancel' ? undefined : result));
  const choices = choicesIn(data);
  if (choices) return form(choiceForm(choices), ({ action, content }) => choiceOf(choices, action, content));
  return form(text, ({ action, content }) => (action === 'accept' ? content?.['answer'] : undefined));
}

function form(requestedSchema: Form, answerOf: Asking['answerOf']): Asking {
  return { params: (message) => ({ mode: 'form', message, requestedSchema }), answerOf };
}

/** Credentials are never asked for in a form; the user goes where the server says. */
function signIn({ id, data }: Question): Asking | undefined {
  const url = typeof data === 'object' && data !== null && 'url' in data ? data.url : undefined;
  if (typeof url !== 'string' || !URL.canParse(url)) return undefined;
  return {
    params: (message) => ({ mode: 'url', message, url, elicitationId: id }),
    answerOf: (result) => (result.action === 'accept' ? { action: 'accept' } : undefined),
  };
}

const approval: Form = {
  type: 'object',
  properties: {
    approved: { type: 'boolean', title: 'Approve' },
    reason: { type: 'string', title: 'Why not', description: 'Told to the agent.' },
  },
  required: ['approved'],
};

function approvalOf(action: ElicitResult['action'], content: ElicitResult['content']): unknown {
  if (action === 'cancel') return undefined;
  if (action === 'accept' && content?.['approved'] === true) return { approved: true };
  const reason = content?.['reason'];
  return { approved: false, ...(typeof reason === 'string' && reason !== '' && { reason }) };
}

const outcome: Form = {
  type: 'object',
  properties: {
    outcome: { type: 'string', title: 'Did it take effect?', enum: ['applied', 'not-applied', 'unknown'] },
    content: { type: 'string', title: 'What it gave, where it did' },
  },
  required: ['outcome'],
};

function outcomeOf(action: ElicitResult['action'], content: ElicitResult['content']): unknown {
  if (action !== 'accept') return { outcome: 'unknown' };
  const said = content?.['outcome'];
  if (said === 'applied') return { outcome: said, content: String(content?.['content'] ?? '') };
  return { outcome: said === 'not-applied' ? said : 'unknown' };
}

const resultForm: Form = {
  type: 'object',
  properties: { result: { type: 'string', title: 'What came of it' } },
  required: ['result'],
};

function clientAnswer(action: ElicitResult['action'], content: ElicitResult['content']): unknown {
  return action === 'accept' ? { result: content?.['result'] ?? '' } : { error: 'the user did not do it' };
}

const text: Form = { type: 'object', properties: { answer: { type: 'string' } }, required: ['answer'] };

function choiceForm(choices: readonly string[]): Form {
  return { type: 'object', properties: { answer: { type: 'string', enum: [...choices] } }, required: ['answer'] };
}

function choiceOf(
  choices: readonly string[],
  action: ElicitResult['action'],
  content: ElicitResult['content'],
): string | undefined {
  return action === 'accept' ? choices.find((each) => each === content?.['answer']) : undefined;
}

/** What a question lets its user choose from. */
function choicesIn(data: unknown): readonly string[] | undefined {
  if (typeof data !== 'object' || data === null || !('choices' in data) || !Array.isArray(data.choices))
    return undefined;
  const choices: readonly unknown[] = data.choices;
  const texts = choices.filter((each) => typeof each === 'string');
  return texts.length > 0 && texts.length === choices.length ? [...new Set(texts)] : undefined;
}

/** The form of a question that an MCP server asked the agent. */
function formIn(data: unknown): Form | undefined {
  if (typeof data !== 'object' || data === null || !('requestedSchema' in data)) return undefined;
  const { requestedSchema } = data;
  return isForm(requestedSchema) ? requestedSchema : undefined;
}

function isForm(value: unknown): value is Form {
  if (typeof value !== 'object' || value === null || !('type' in value) || !('properties' in value)) return false;
  return (
    value.type === 'object' &&
    typeof value.properties === 'object' &&
    value.properties !== null &&
    !isDeepStrictEqual(value.properties, {})
  );
}
