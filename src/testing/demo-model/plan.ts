import type { OfferedTool } from '../model-server/chat-request.ts';
import type { Conversation, Finding } from './conversation-of.ts';
import { type Match, type MatchOutcome, matchTool, purposesOf } from './match-tool.ts';
import { entriesIn, filesIn, type Hit, hitsIn, nameOfEntry } from './outcome-of.ts';
import { type Question, questionsOf } from './questions-of.ts';
import { smallTalk } from './small-talk.ts';

/** What the model makes of one question. */
export type Plan =
  /** A tool answers it; `finding` is there once it did. */
  | { readonly type: 'call'; readonly question: Question; readonly match: Match; readonly finding: Finding | undefined }
  /** It is about a file that the answer to another question has to name first. */
  | { readonly type: 'wait'; readonly question: Question }
  /** It needs no tool. */
  | { readonly type: 'talk'; readonly question: Question; readonly text: string }
  /** No tool fits, or the question lacks what the tool needs. */
  | { readonly type: 'unfit'; readonly question: Question; readonly lacking: MatchOutcome['lacking'] };

export type CallPlan = Extract<Plan, { type: 'call' }>;

interface Circumstances {
  readonly conversation: Conversation;
  readonly tools: readonly OfferedTool[];
  /** The plans for the questions before this one. */
  readonly before: readonly Plan[];
}

/**
 * One plan for each question of the open prompts. A late prompt that nothing fits counts as an instruction, not as a
 * question: it gets none.
 */
export function plansFor(conversation: Conversation, offered: readonly OfferedTool[]): readonly Plan[] {
  const tools = [...offered, ...seenTools(conversation, offered)];
  const plans: Plan[] = [];
  for (const { text, isLate } of conversation.prompts) {
    const questions = questionsOf(text);
    for (const question of questions) {
      const talk = smallTalk(question, { conversation, tools: offered, isAlone: questions.length === 1 });
      const plan: Plan =
        talk === undefined
          ? planFor(question, { conversation, tools, before: plans })
          : { type: 'talk', question, text: talk };
      if (plan.type !== 'unfit' || !isLate) plans.push(plan);
    }
  }
  return plans;
}

/**
 * The call that a search suggests: to read the file that it found, where a tool can and nobody has read one in this turn.
 */
export function followUpFor(
  plans: readonly Plan[],
  { conversation, tools }: Omit<Circumstances, 'before'>,
): { readonly question: Question; readonly match: Match } | undefined {
  const isReading = ({ name }: { readonly name: string }): boolean => purposeByName(name, tools) === 'read';
  if (conversation.findings.some(isReading)) return undefined;
  if (plans.some((plan) => plan.type === 'wait' || (plan.type === 'call' && isReading(plan.match.tool))))
    return undefined;
  for (const plan of plans) {
    if (plan.type !== 'call' || plan.question.kind !== 'search' || plan.finding === undefined) continue;
    const path = bestFile(plan.finding, plan.question.facets.pattern ?? '');
    const question = readingOf(path ?? '');
    const { match } = path === undefined ? {} : matchTool(question, tools.filter(isReading));
    if (match !== undefined) return { question, match };
  }
  return undefined;
}

/** Whether a finding is what came of a call. */
function isFindingOf({ name, arguments: given }: Finding, match: Match): boolean {
  const asked = Object.entries(match.arguments);
  if (name !== match.tool.name || asked.length !== Object.keys(given).length) return false;
  return asked.every(([key, value]) => JSON.stringify(given[key]) === JSON.stringify(value));
}

function planFor(asked: Question, circumstances: Circumstances): Plan {
  const { conversation, tools } = circumstances;
  const question = resolved(asked, circumstances);
  if (question === 'later') return { type: 'wait', question: asked };
  const outcome = matchTool(question, tools);
  const call = outcome.match ? { question, match: outcome.match } : goingOn(question, circumstances);
  if (call === undefined) return { type: 'unfit', question, lacking: outcome.lacking };
  const finding = conversation.findings.find((known) => isFindingOf(known, call.match));
  return { type: 'call', ...call, finding };
}

/** The question with the file that `it` or `the first one` means; `later` where that has to be found first. */
function resolved(question: Question, { conversation, before }: Circumstances): Question | 'later' {
  const { kind, facets } = question;
  if (kind !== 'read' || facets.path !== undefined || facets.reference === undefined) return question;
  const last = before.findLast((plan) => plan.type === 'call' || plan.type === 'wait');
  if (last?.type === 'wait') return 'later';
  if (last?.question.kind === 'read' && last.question.facets.path !== undefined) {
    return withPath(question, last.question.facets.path);
  }
  if (last?.type === 'call' && last.finding === undefined) return 'later';
  const sources = last?.type === 'call' && last.finding ? [last.finding] : conversation.earlierFindings.toReversed();
  for (const source of sources) {
    const path = filesOf(source).at(facets.reference);
    if (path !== undefined) return withPath(question, path);
  }
  return question;
}

function withPath(question: Question, path: string): Question {
  return { ...question, facets: { ...question.facets, path } };
}

/** `And in Paris?`: the tool that was used last, of those that can take what this question names. */
function goingOn(
  question: Question,
  { conversation, tools }: Circumstances,
): { readonly question: Question; readonly match: Match } | undefined {
  if (!question.goesOn) return undefined;
  for (const { name } of conversation.earlierFindings.toReversed()) {
    const tool = tools.find((known) => known.name === name);
    if (tool === undefined) continue;
    const again: Question = { ...question, text: `${question.text} ${name}`, kind: purposesOf(tool)[0] ?? 'other' };
    const { match } = matchTool(again, [tool]);
    if (match !== undefined && Object.keys(match.arguments).length > 0) return { question: again, match };
  }
  return undefined;
}

/** Tools that the conversation used and that are not offered now: their results can still be understood. */
function seenTools({ findings }: Conversation, offered: readonly OfferedTool[]): readonly OfferedTool[] {
  const seen = new Map(
    findings.map(({ name, arguments: given }) => {
      const properties = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, { type: typeof value }]));
      return [name, { name, description: '', parameters: { properties, required: Object.keys(given) } }];
    }),
  );
  return [...seen.values()].filter(({ name }) => offered.every((tool) => tool.name !== name));
}

function purposeByName(name: string, tools: readonly OfferedTool[]): string | undefined {
  return purposesOf(tools.find((tool) => tool.name === name) ?? { name, description: '', parameters: {} })[0];
}

export function readingOf(path: string): Question {
  return { text: `read ${path}`, kind: 'read', facets: { path, numbers: [] }, stems: new Set(), goesOn: false };
}

/** The file that defines what was searched for or is named after it, else the first. */
function bestFile({ outcome }: Finding, pattern: string): string | undefined {
  if (outcome.error !== undefined) return undefined;
  const defines =
    /^\s*(?:export\s+)?(?:(?:default|abstract|async)\s+)*(?:class|function|const|interface|type|enum|def)\s+(\w+)/;
  const plain = (text: string): string => text.replace(/[^\p{L}\d]/gu, '').toLowerCase();
  const isNamesake = ({ path }: Hit): boolean => plain(path.split('/').at(-1)?.split('.')[0] ?? '') === plain(pattern);
  const hits = hitsIn(outcome);
  const best = hits.find(({ text }) => defines.exec(text ?? '')?.[1] === pattern) ?? hits.find(isNamesake) ?? hits[0];
  return best?.path;
}

/** The files that a search or a list names, as paths that can be read. */
function filesOf({ arguments: given, outcome }: Finding): readonly string[] {
  const found = filesIn(outcome);
  if (found.some((path) => path.includes('/'))) return found;
  const folder = Object.values(given).find(
    (value) => typeof value === 'string' && /^[\w./-]+$/.test(value) && value !== '.',
  );
  const names = entriesIn(outcome)
    .map(nameOfEntry)
    .filter((name) => /^[\w@.-]+$/.test(name));
  return names.map((name) => (typeof folder === 'string' ? `${folder.replace(/\/$/, '')}/${name}` : name));
}
