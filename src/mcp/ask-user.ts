import type { ElicitRequest, ElicitResult } from '@modelcontextprotocol/client';
import { isObject, type JSONSchema, type ToolContext } from '../core/contracts/index.ts';
import { foreignSchemaChecker } from '../tools/schema-checks.ts';

/**
 * Asks the user of the turn a server's question, and returns the answer: what `elicitation/create` expects, `{ action, content }`, or
 * the content alone. An answer that does not match the server's schema is asked for again. Throws without an answer, as `ask` does.
 * Fields that an accepted form leaves out get the defaults of its schema. `kept` is journaled beside the question. `onAnswer` is called for
 * each answer that is taken.
 */
export async function askUser(
  params: ElicitRequest['params'],
  {
    server,
    context,
    kept,
    onAnswer,
  }: {
    readonly server: string;
    readonly context: ToolContext;
    readonly kept?: unknown;
    readonly onAnswer: () => void;
  },
): Promise<ElicitResult> {
  if (isUrl(params) && !(URL.canParse(params.url) && /^https?:$/.test(new URL(params.url).protocol)))
    return { action: 'decline' };
  const check = checkerOf(params);
  let problem = '';
  for (;;) {
    const prompt = `${params.message}${problem}`;
    const answer = context.ask({
      kind: isUrl(params) ? 'auth' : 'input',
      prompt,
      data: { server, ...shownOf(params) },
      ...(kept === undefined ? {} : { private: kept }),
    });
    onAnswer();
    const result = withDefaults(resultOf(answer, params), params);
    const flaw = result.action === 'accept' && check ? await check(result.content ?? {}) : undefined;
    if (flaw === undefined) return result;
    problem = ` (the last answer did not fit: ${flaw})`;
  }
}

function isUrl(params: ElicitRequest['params']): params is Extract<ElicitRequest['params'], { mode: 'url' }> {
  return params.mode === 'url';
}

/** What an answer needs to know. */
function shownOf(params: ElicitRequest['params']): object {
  if (isUrl(params)) return { mode: 'url', url: params.url };
  return { mode: 'form', requestedSchema: params.requestedSchema };
}

type Check = (content: unknown) => Promise<string | undefined>;

/** None for what holds no form, and for a form that cannot be checked: the server checks what it gets. */
function checkerOf(params: ElicitRequest['params']): Check | undefined {
  if (isUrl(params)) return undefined;
  const schema: JSONSchema = params.requestedSchema;
  const checker = foreignSchemaChecker(schema, 'the question of an MCP server');
  return async (content) => {
    try {
      const checked = await checker(content);
      return checked.ok ? undefined : checked.message.replaceAll('arguments', 'content');
    } catch {
      return undefined;
    }
  };
}

/** `{ action, content }` as it is; else the content of a form, or of its one field, or whether somebody went to the address. */
function resultOf(answer: unknown, params: ElicitRequest['params']): ElicitResult {
  if (isUrl(params) && answer === false) return { action: 'decline' };
  if (!isObject(answer)) {
    const [field = 'value'] = isUrl(params) ? [] : Object.keys(params.requestedSchema.properties);
    return { action: 'accept', content: isUrl(params) ? {} : fieldsOf({ [field]: answer }) };
  }
  const { action } = answer;
  if (action === 'decline' || action === 'cancel') return { action };
  const given = action === 'accept' ? answer['content'] : answer;
  return { action: 'accept', content: isObject(given) ? fieldsOf(given) : {} };
}

function withDefaults(result: ElicitResult, params: ElicitRequest['params']): ElicitResult {
  if (result.action !== 'accept' || isUrl(params)) return result;
  const defaults: [string, unknown][] = Object.entries(params.requestedSchema.properties).flatMap(
    ([name, property]) => {
      const value: unknown = Reflect.get(property, 'default');
      return value === undefined ? [] : [[name, value]];
    },
  );
  return { ...result, content: { ...fieldsOf(Object.fromEntries(defaults)), ...result.content } };
}

function fieldsOf(given: Readonly<Record<string, unknown>>): NonNullable<ElicitResult['content']> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, isTextList(value) ? value : scalar(value)]),
  );
}

function scalar(value: unknown): string | number | boolean {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  return JSON.stringify(value);
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
