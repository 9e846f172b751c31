import { isSuccess, soundsFailed } from './failure-words.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';

// Members by their names in lower case, without separators.
export const messageMembers: ReadonlySet<string> = new Set(
  'message msg errormessage errormsg errmsg statusmsg statusmessage detail details description errordescription title reason'.split(
    ' ',
  ),
);
/** Members of answers: whatever stands in them was written by the model or its tools, and is no failure of the answer. */
export const contentMembers: ReadonlySet<string> = new Set(
  [
    'choices delta message content contentblock part item output outputs tools toolcalls functioncall toolchoice candidates',
    'usage usagemetadata promptfeedback contentfilterresults contentfilterresult promptfilterresults logprobs annotations citations',
    'searchresults executedtools providerspecificfields reasoning reasoningdetails thinking input inputs instructions',
    'metadata text audio images image warnings warning parameters arguments messages',
  ].flatMap((names) => names.split(' ')),
);

/** `base_resp`, `BaseResp` and `baseResp` are one name. */
export function memberName(name: string): string {
  return name.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
}

const errorNames = /(error|errors|exception|fault|failure|(error|err)(message|msg))$/;
/** `is_error` and `hasError` say nothing themselves. */
const flagNames = /^(is|has|on|show|ignore)|lasterror$/;

/** Whether a member holds an error: `error`, `errors`, `provider_error`, `internalServerException`, `fault`. */
export function isErrorMember(plain: string): boolean {
  return errorNames.test(plain) && !flagNames.test(plain);
}

/**
 * The object in which `value`, a JSON value that a server sent with a good status, says a failure; `undefined` where it says none. Any
 * member counts, of the value itself and of what wraps it, but not the content of an answer; one that says success, or nothing, is none.
 */
export function failureIn(value: unknown): JsonObject | undefined {
  return search(value, 0);
}

// Members of chunks, and of their choices and messages, in whose names and values no failure can be.
const usualOfChunk: ReadonlySet<string> = new Set(
  'id object created model provider system_fingerprint service_tier obfuscation'.split(' '),
);
const usualOfChoice: ReadonlySet<string> = new Set(
  [
    'index delta message logprobs finish_reason native_finish_reason',
    'role content refusal reasoning reasoning_content reasoning_details tool_calls function_call annotations',
  ].flatMap((names) => names.split(' ')),
);

/** Whether a chunk has the usual members alone, in which no failure can be, and no usage but in `usage`. */
export function isUsualChunk(chunk: JsonObject): boolean {
  for (const name in chunk) {
    const value = chunk[name];
    if (name === 'choices') {
      if (!Array.isArray(value) || !value.every(isUsualChoice)) return false;
    } else if (name !== 'usage') {
      if (!usualOfChunk.has(name) || typeof value === 'object' || value === 'error') return false;
    }
  }
  return true;
}

function isUsualChoice(choice: unknown): boolean {
  if (!isJsonObject(choice)) return false;
  return hasUsualMembers(choice) && hasUsualMembers(choice['delta']) && hasUsualMembers(choice['message']);
}

function hasUsualMembers(value: unknown): boolean {
  if (!isJsonObject(value)) return true;
  for (const name in value) if (!usualOfChoice.has(name)) return false;
  return true;
}

function search(value: unknown, depth: number): JsonObject | undefined {
  if (Array.isArray(value)) return depth === 0 ? firstOf(value, (member) => search(member, 1)) : undefined;
  if (!isJsonObject(value) || depth > 3) return undefined;
  if (saysFailure(value, depth)) return value;
  return firstOf(Object.entries(value), ([name, member]) => {
    const plain = memberName(name);
    if (plain === 'choices' && Array.isArray(member)) return firstOf(member, failedChoice);
    return contentMembers.has(plain) || !isJsonObject(member) ? undefined : search(member, depth + 1);
  });
}

function firstOf<T, R>(values: readonly T[], find: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** OpenRouter puts an error into the choice; others into its message. */
function failedChoice(choice: unknown): JsonObject | undefined {
  if (!isJsonObject(choice)) return undefined;
  return [choice, choice['delta'], choice['message']].filter(isJsonObject).find(hasError);
}

function saysFailure(object: JsonObject, depth: number): boolean {
  if (hasError(object)) return true;
  const { type, object: kind, success, ok } = object;
  if (type === 'error' || kind === 'error') return true;
  if (typeof type === 'string' && /\.(failed|error)$/.test(type) && depth === 0) return true;
  if ((success === false || ok === false) && sentencesOf(object).length > 0) return true;
  return statusFails(object, depth);
}

function hasError(object: JsonObject): boolean {
  return Object.entries(object).some(([name, value]) => {
    const plain = memberName(name);
    if (!isErrorMember(plain)) return false;
    if (typeof value === 'boolean' || typeof value === 'number')
      return value !== false && value !== 0 && plain === 'error';
    return saysSomething(value);
  });
}

/** Whether an error's value is one: not empty, not a word of success, not an object whose code is one of success. */
function saysSomething(value: unknown, depth = 0): boolean {
  if (value === null || value === undefined || value === false || value === 0) return false;
  if (typeof value === 'string') return !isSuccess(value);
  if (typeof value !== 'object') return true;
  if (depth > 16) return false;
  if (Array.isArray(value)) return value.some((member) => saysSomething(member, depth + 1));
  const object = isJsonObject(value) ? value : {};
  const success = codesOf(object).some((code) => code !== '' && isSuccess(String(code)));
  if (success && !sentencesOf(object).some(soundsFailed)) return false;
  return Object.values(object).some((member) => saysSomething(member, depth + 1));
}

/** A code beside a message, without a member for errors: OpenRouter, MiniMax's `base_resp`, AWS, FastAPI. */
function statusFails(object: JsonObject, depth: number): boolean {
  const isAnswer = Array.isArray(object['choices']) && object['choices'].length > 0;
  const sentences = sentencesOf(object);
  if (typeof object['__type'] === 'string') return true;
  const codes = codesOf(object).filter((code) => !isSuccess(String(code)));
  const status = codes.map(Number).find((code) => Number.isInteger(code));
  if (status !== undefined && sentences.length > 0) return !isAnswer || (status >= 400 && status < 600);
  if (isAnswer || depth > 1) return false;
  if (codes.length > 0 && (depth === 0 ? sentences.length > 0 : sentences.some(soundsFailed))) return true;
  if (depth > 0) return false;
  const { detail, message } = object;
  if (saysSomething(detail) && typeof detail !== 'number') return true;
  return typeof message === 'string' && object['type'] === undefined && soundsFailed(message);
}

function codesOf(object: JsonObject): readonly (string | number)[] {
  const codes = /^(status)?code$|^(error|err)code$|^http(code|status|statuscode)$|^ret(code)?$|^status$/;
  return Object.entries(object).flatMap(([name, value]) =>
    codes.test(memberName(name)) && (typeof value === 'string' || typeof value === 'number') ? [value] : [],
  );
}

function sentencesOf(object: JsonObject): readonly string[] {
  return Object.entries(object).flatMap(([name, value]) =>
    messageMembers.has(memberName(name)) && typeof value === 'string' && !isSuccess(value) ? [value] : [],
  );
}
