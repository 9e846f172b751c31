import { isDeepStrictEqual } from 'node:util';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type {
  ClientCapabilities,
  ElicitRequest,
  ElicitResult,
  ServerNotification,
  ServerRequest,
} from '@modelcontextprotocol/sdk/types.js';
import { innermostQuestion, type Question } from '../../core/journal/index.ts';
import type { ServerSdk } from '../load-sdk.ts';

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** The client of one call: what it can do, and the way to it. */
export interface CallingClient {
  readonly capabilities: ClientCapabilities;
  /** Of the call. */
  readonly meta: NonNullable<Extra['_meta']>;
  /** Aborted when it does not want the result any more. */
  readonly signal: AbortSignal;
  readonly notify: Extra['sendNotification'];
  readonly request: Extra['sendRequest'];
}

/** What it takes to ask the user of a client. */
interface AskedCall {
  readonly sdk: ServerSdk;
  readonly served: { readonly answerTimeoutMs: number };
  readonly client: CallingClient;
}

/** The answers of a turn, by the questions' ids. */
type Answers = Readonly<Record<string, unknown>>;

type Form = Extract<ElicitRequest['params'], { requestedSchema: unknown }>['requestedSchema'];

/** The form of a question, and the conversion of its answer. `undefined`: no answer, and the turn cannot continue here. */
interface Asking {
  readonly params: (message: string) => ElicitRequest['params'];
  readonly answerOf: (result: ElicitResult) => unknown;
}

const maxShown = 2_000;

/**
 * Asks the user of a client what a turn asks, one question after the other. Undefined where the client cannot ask, or the user does not
 * answer what has to be answered.
 */
export async function askClient(questions: readonly Question[], call: AskedCall): Promise<Answers | undefined> {
  const answers: Record<string, unknown> = {};
  for (const question of questions) {
    const answer = await ask(question, call);
    if (answer === undefined) return undefined;
    answers[question.id] = answer;
  }
  return questions.length === 0 ? undefined : answers;
}

async function ask(question: Question, { client, sdk, served }: AskedCall): Promise<unknown> {
  // What an agent below asks has the form that its own question wants.
  const inner = innermostQuestion(question);
  const asking = askingOf(inner, client);
  if (!asking) return undefined;
  const params = asking.params(wordsOf(inner));
  const request = { method: 'elicitation/create' as const, params };
  const options = { timeout: served.answerTimeoutMs, signal: client.signal };
  try {
    return asking.answerOf(await client.request(request, sdk.types.ElicitResultSchema, options));
  } catch {
    return undefined;
  }
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
  return more <= 0 ? json : `${json.slice(0, maxShown)}… (${more} more characters are not shown)`;
}

function askingOf(question: Question, { capabilities }: CallingClient): Asking | undefined {
  const { elicitation } = capabilities;
  if (!elicitation) return undefined;
  const { kind, data } = question;
  if (kind === 'auth') return elicitation.url ? signIn(question) : undefined;
  if (elicitation.url && !elicitation.form) return undefined;
  if (kind === 'approval') return form(approval, ({ action, content }) => approvalOf(action, content));
  if (kind === 'in-doubt') return form(outcome, ({ action, content }) => outcomeOf(action, content));
  if (kind === 'client-tool') return form(resultForm, ({ action, content }) => clientAnswer(action, content));
  const wanted = formIn(data);
  if (wanted) return form(wanted, (result) => (result.action === 'cancel' ? undefined : result));
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
