import { isObject } from '../core/contracts/index.ts';
import {
  type Call,
  type Finding,
  filesIn,
  findingOf,
  intentionOf,
  listed,
  parsed,
  type Question,
  questionsOf,
  sentencesFor,
  topicOfTool,
  type ValueKind,
} from './demo-model/sentences.ts';
import type { ChatMessage, ChatRequest, ModelReply, OfferedTool } from './model-server/chat-request.ts';

/**
 * A stand-in for a language model: a pure function from a request to a reply, with fixed rules and no knowledge. It splits
 * the prompts since the last answer into questions, matches each with one of the tools offered, by name, description and
 * parameter schema, asks for all of them at once, reads a file that a search found, and answers with the results. Where no
 * tool fits, it says so. A tool named `finish`, `done` or the like gets the answer, in the form of its schema.
 *
 * `tool_choice` and `parallel_tool_calls` are followed. It knows what the messages hold, and nothing else.
 */
export function demoModel(request: ChatRequest): ModelReply {
  const { questions, findings } = openPart(request.messages);
  const offered = request.tools.filter(({ name }) => !isFinish(name));
  const plans = questions.map((question) => planFor(question, offered));
  const text = answerOf(plans, findings, offered);
  const known = new Set(findings.map(keyOf));
  const asked = [...plans.flatMap(({ call }) => call ?? []), ...followUp(findings, offered)];
  const wanted = new Map(asked.map((call) => [keyOf(call), call] as const).filter(([key]) => !known.has(key)));
  const calls = chosenCalls(request, { questions, findings, text, wanted: [...wanted.values()] });
  if (calls.length === 0) return { text };
  const intentions = calls.filter(({ name }) => !isFinish(name)).map(intentionOf);
  return {
    ...(intentions.length > 0 && {
      text: `${findings.length === 0 ? 'I will' : 'Next I will'} ${listed(intentions)}.`,
    }),
    toolCalls: calls.map((call) => ({ name: call.name, arguments: JSON.stringify(call.arguments) })),
  };
}

/** What the model makes of one question: a call, a sentence, or neither where no tool fits. */
interface Plan {
  readonly question: Question;
  readonly call?: Call;
  readonly says?: string;
}

interface OpenPart {
  /** The questions of the user since the last complete answer. */
  readonly questions: readonly Question[];
  readonly findings: readonly Finding[];
}

/** Reads the messages; an answer without calls closes what was open before it. */
function openPart(messages: readonly ChatMessage[]): OpenPart {
  const end = messages.findLastIndex(({ role, calls }) => role === 'assistant' && calls.length === 0);
  const open = messages.slice(end + 1);
  const results = new Map(open.flatMap(({ callId, text }) => (callId === undefined ? [] : [[callId, text]])));
  const findings = open.flatMap(({ calls }) =>
    calls.map(({ id, name, arguments: json }) => {
      const given = parsed(json);
      return findingOf({ name, arguments: isObject(given) ? given : {} }, results.get(id) ?? '');
    }),
  );
  return { questions: open.flatMap(({ role, text }) => (role === 'user' ? questionsOf(text) : [])), findings };
}

function keyOf({ name, arguments: given }: Call): string {
  return JSON.stringify([name, given]);
}

/** Whether a tool ends the turn with the answer as its arguments. */
function isFinish(name: string): boolean {
  return /^_*(?:finish|done|complete|final|submit)(?:_?(?:task|answer|response|result|output))?_*$/i.test(name);
}

interface Situation extends OpenPart {
  readonly text: string;
  readonly wanted: readonly Call[];
}

function chosenCalls({ tools, toolChoice, parallel }: ChatRequest, situation: Situation): readonly Call[] {
  const { questions, findings, wanted } = situation;
  const finish = tools.find(({ name }) => isFinish(name));
  const finished = findings.filter(({ name }) => isFinish(name));
  if (toolChoice === 'none' || questions.length === 0) return [];
  if (typeof toolChoice === 'object')
    return forced(
      tools.find(({ name }) => name === toolChoice.name),
      situation,
    );
  if (wanted.length > 0) return parallel ? wanted : wanted.slice(0, 1);
  if (toolChoice === 'required') return forced(finish ?? tools[0], situation);
  const isRefusedOnce = finished.length === 1 && finished[0]?.error !== undefined;
  return finished.length === 0 || isRefusedOnce ? forced(finish, situation) : [];
}

/** A call that must be made: the one that is wanted anyway, or else one made of the answer and the question. */
function forced(tool: OfferedTool | undefined, { wanted, text, findings, questions }: Situation): readonly Call[] {
  const call = wanted.find(({ name }) => name === tool?.name);
  if (call !== undefined || tool === undefined) return call === undefined ? [] : [call];
  const made = fillSchema(
    tool.parameters,
    text,
    findings.map(({ result }) => result),
  );
  const [question] = isFinish(tool.name) ? [] : questions;
  const named = question === undefined ? {} : argumentsFor(question, tool.parameters).arguments;
  return [{ name: tool.name, arguments: { ...(isObject(made) && made), ...named } }];
}

function planFor(question: Question, tools: readonly OfferedTool[]): Plan {
  const says = smallTalk(question.text, tools);
  if (says !== undefined) return { question, says };
  const fitting = tools
    .map((tool) => ({ tool, score: scoreOf(question, tool), ...argumentsFor(question, tool.parameters) }))
    .filter(({ score }) => score >= 3)
    .sort((a, b) => b.score - a.score);
  const match = fitting.find(({ missing }) => missing.length === 0) ?? fitting[0];
  if (match === undefined) return { question };
  const { tool, missing, arguments: given } = match;
  if (missing.length === 0) return { question, call: { name: tool.name, arguments: given } };
  const names = listed(missing);
  const lacking = `For “${question.text}” I would use ${tool.name}, but I do not see what to give it as ${names}.`;
  return { question, says: lacking };
}

const idle = stems(
  'a an and are current do does get how in is it list me my of on or please some tell that the this to what with',
);

/** 4 for the topic, 5 for each telling word of the name, 1 for each of the description. */
function scoreOf({ text, topic }: Question, { name, description }: OfferedTool): number {
  const said = stems(text);
  const shared = (words: string): number =>
    [...stems(words)].filter((stem) => said.has(stem) && !idle.has(stem)).length;
  return (topic !== 'other' && topicOfTool(name) === topic ? 4 : 0) + shared(name) * 5 + shared(description);
}

function stems(text: string): ReadonlySet<string> {
  const words = text.toLowerCase().match(/[\p{L}\d]+/gu) ?? [];
  return new Set(words.map((word) => word.replace(/(?<=...)(?:ing|ed|es|s|e)$/, '')));
}

const itself = 'I am a stand-in for a model: I match questions with tools and know nothing of my own.';
const greeting: string = 'Hello!';

function smallTalk(text: string, tools: readonly OfferedTool[]): string | undefined {
  if (/^(?:hi|hello|hey)\b[^,]{0,8}$/i.test(text)) return greeting;
  return /\b(?:who|what) are you\b|\bwhat can you do\b/i.test(text) ? introduction(tools) : undefined;
}

function introduction(tools: readonly OfferedTool[]): string {
  if (tools.length === 0) return `${itself} No tool is offered to me now, so there is little that I can do.`;
  return `${itself} I am offered ${listed(tools.map(({ name }) => name))}: ask me something that they can answer.`;
}

/** Reads a file that a search found: the one that is named after what was searched for, or else the first. */
function followUp(findings: readonly Finding[], tools: readonly OfferedTool[]): readonly Call[] {
  const reader = tools.find(({ name }) => topicOfTool(name) === 'read');
  const search = findings.find(({ name, error }) => topicOfTool(name) === 'search' && error === undefined);
  if (reader === undefined || search === undefined || findings.some(({ name }) => name === reader.name)) return [];
  const letters = (text: unknown): string =>
    String(text)
      .replace(/[^\p{L}\d]/gu, '')
      .toLowerCase();
  const sought = Object.values(search.arguments).map(letters);
  const files = filesIn(search.result);
  const path = files.find((file) => sought.includes(letters(file.split('/').at(-1)?.split('.')[0]))) ?? files[0];
  const [question] = path === undefined ? [] : questionsOf(`read ${path}`);
  if (question === undefined) return [];
  return [{ name: reader.name, arguments: argumentsFor(question, reader.parameters).arguments }];
}

/** All that can be said now: what the results say, question by question, and which questions are left. */
function answerOf(plans: readonly Plan[], findings: readonly Finding[], tools: readonly OfferedTool[]): string {
  const left = new Set(findings.filter(({ name }) => !isFinish(name)));
  const said: string[] = [];
  const results: string[] = [];
  const pending: string[] = [];
  const unfit: string[] = [];
  for (const { question, call, says } of plans) {
    const finding = [...left].find((known) => call !== undefined && keyOf(known) === keyOf(call));
    if (says !== undefined) said.push(says);
    else if (call === undefined) unfit.push(`“${question.text}”`);
    else if (finding === undefined) pending.push(intentionOf(call));
    else results.push(sentencesFor(finding, question.text));
    if (finding !== undefined) left.delete(finding);
  }
  for (const finding of left) results.push(sentencesFor(finding, undefined));
  if (pending.length > 0) results.push(`I would ${listed(pending)}, but I may not call a tool now.`);
  if (unfit.length > 0 && left.size === 0) {
    const names = listed(tools.map(({ name }) => name));
    const offer = names === '' ? 'No tool is offered to me here.' : `What I am offered does not fit: ${names}.`;
    results.push(`I cannot answer ${listed(unfit)}. ${itself} ${offer}`);
  }
  if (results.length === 0 && said.every((part) => part === greeting)) said.push(introduction(tools));
  const isLong = (part: string): boolean => part.length > 140;
  return [said.join(' '), ...results]
    .filter((part) => part !== '')
    .reduce((text, part) => `${text}${isLong(part) ? '\n\n' : ' '}${part}`);
}

type Schema = Readonly<Record<string, unknown>>;

/** Where values come from. */
interface Source {
  /** What a string gets that nothing is named for. */
  readonly text: string;
  /** Numbers that no member has taken yet. */
  readonly numbers: number[];
  /** The value for a member of this name; null where it takes one that the source does not have. */
  named(name: string): unknown;
}

interface Filled {
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Required parameters for which there is no value. */
  readonly missing: readonly string[];
}

/** Which value of a question a parameter takes, by its name. The first that fits counts. */
const roles: readonly (readonly [RegExp, ValueKind])[] = [
  [/expr|formula/, 'expression'],
  [/city|place|location|country|zone/, 'place'],
  [/mail|recipient/, 'email'],
  [/path|file|folder/, 'path'],
  [/pattern|query|keyword/, 'pattern'],
  [/[^a-z]id$/, 'code'],
];

/** Arguments for a tool out of a question. An optional parameter gets a value only where the question names one. */
function argumentsFor(question: Question, { properties, required }: Schema): Filled {
  const source: Source = {
    text: question.values.quoted ?? question.text,
    numbers: [...question.numbers],
    named(name) {
      const [, kind] = roles.find(([pattern]) => pattern.test(name.toLowerCase())) ?? [];
      if (kind === undefined) return undefined;
      const value = question.values[kind] ?? null;
      return value !== null && /zone/i.test(name) ? zoneOf(value) : value;
    },
  };
  const [filled, missing]: [Record<string, unknown>, string[]] = [{}, []];
  for (const [name, schema] of Object.entries(isObject(properties) ? properties : {})) {
    const isRequired = Array.isArray(required) && required.includes(name);
    const value = isRequired ? valueFor(name, schema, source) : source.named(name);
    if (value !== undefined && value !== null) filled[name] = value;
    else if (isRequired) missing.push(name);
  }
  return { arguments: filled, missing };
}

/** The IANA zone of a city; any other place is passed on as it is. */
function zoneOf(place: string): string {
  const city = `/${place.replaceAll(' ', '_')}`;
  return Intl.supportedValuesOf('timeZone').find((zone) => zone.endsWith(city)) ?? place;
}

/** A value that a JSON Schema allows: members that a result names by the same key, numbers of the results, else the answer. */
function fillSchema(schema: Schema, text: string, results: readonly unknown[]): unknown {
  const numbers = results.flatMap((result) => (JSON.stringify(result).match(/-?\d+(?:\.\d+)?/g) ?? []).map(Number));
  const named = (name: string): unknown =>
    results.map((result) => (isObject(result) ? result[name] : undefined)).find((value) => value !== undefined);
  return valueFor('', schema, { text, numbers, named });
}

function valueFor(name: string, given: unknown, source: Source): unknown {
  const schema = isObject(given) ? given : {};
  const { const: constant, enum: choices, anyOf, properties } = schema;
  const type = [schema['type']].flat().find((each) => each !== 'null');
  if (Array.isArray(anyOf)) {
    const option = anyOf.find((each) => isObject(each) && each['type'] !== 'null');
    return valueFor(name, option, source);
  }
  if (constant !== undefined) return constant;
  if (Array.isArray(choices)) return choices.find((choice) => source.text.includes(String(choice))) ?? choices[0];
  const named = source.named(name);
  if (named !== undefined) return named;
  if (isObject(properties))
    return Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, valueFor(key, value, source)]));
  if (type === 'object') return {};
  if (type === 'array') return [valueFor('', schema['items'], source)];
  if (type === 'boolean') return true;
  if (type !== 'number' && type !== 'integer') return source.text;
  const number = Math.max(Number(schema['minimum'] ?? -Infinity), source.numbers.shift() ?? 0);
  return Math.min(Number(schema['maximum'] ?? Infinity), type === 'integer' ? Math.round(number) : number);
}
