import type { OfferedTool } from '../model-server/chat-request.ts';
import type { Conversation, Finding } from './conversation-of.ts';
import { purposesOf } from './match-tool.ts';
import { type CallPlan, type Plan, readingOf } from './plan.ts';
import type { QuestionKind } from './questions-of.ts';
import { type Asked, intentionsOf, sentencesFor } from './sentences-for.ts';
import { introduction, itself } from './small-talk.ts';
import { listed } from './words.ts';

interface Ground {
  readonly conversation: Conversation;
  readonly tools: readonly OfferedTool[];
}

/** All that can be said now: what the findings say, question by question, and honestly what is not answered. */
export function answerText(plans: readonly Plan[], { conversation, tools }: Ground): string {
  const left = new Set(conversation.findings.filter(({ name }) => !isFinishName(name)));
  const owned = new Set(plans.flatMap((plan) => (plan.type === 'call' && plan.finding ? [plan.finding] : [])));
  const parts: string[] = [];
  const tell = (finding: Finding, asked: Asked): void => {
    if (left.delete(finding)) parts.push(sentencesFor(asked, finding.outcome));
  };
  for (const plan of plans) {
    if (plan.type === 'talk') parts.push(plan.text);
    if (plan.type !== 'call' || plan.finding === undefined) continue;
    const asked = askedBy(plan);
    tell(plan.finding, asked);
    const further = [...left].map((finding) => ({ finding, asked: askedIn(finding, tools) }));
    const reading = further.find(({ finding, asked: { kind } }) => kind === 'read' && !owned.has(finding));
    if (asked.kind === 'search' && reading !== undefined) tell(reading.finding, reading.asked);
  }
  for (const finding of left) tell(finding, askedIn(finding, tools));
  parts.push(unanswered(plans, tools));
  const said = parts.filter((part) => part !== '');
  return said.length === 0 ? introduction(tools) : paragraphs(said);
}

/** Whether a tool ends the turn with the answer as its arguments. */
export function isFinishName(name: string): boolean {
  return /^_*(?:finish|done|complete|final|submit)(?:_?(?:task|answer|response|result|output))?_*$/i.test(name);
}

/** What the model says before it calls: `I will work out 12 * 7 and look up the time in Tokyo.` */
export function announcement(calls: readonly Asked[], isFirst: boolean): string {
  return `${isFirst ? 'I will' : 'Next I will'} ${intentionsOf(calls)}.`;
}

export function askedBy({ question, match }: Pick<CallPlan, 'question' | 'match'>): Asked {
  const purposes: readonly QuestionKind[] = purposesOf(match.tool);
  const only = purposes.length === 1 ? purposes[0] : undefined;
  const kind = purposes.includes(question.kind) ? question.kind : (only ?? 'other');
  return { kind, name: match.tool.name, arguments: match.arguments, question };
}

/** A finding that no question asked for: its tool's name and arguments are all there is to tell what it is about. */
function askedIn({ name, arguments: given }: Finding, tools: readonly OfferedTool[]): Asked {
  const tool = tools.find((offered) => offered.name === name) ?? { name, description: '', parameters: {} };
  const kind = purposesOf(tool)[0] ?? 'other';
  const path = Object.values(given).find((value) => typeof value === 'string');
  const question = kind === 'read' && path !== undefined ? readingOf(path) : undefined;
  return { kind, name, arguments: given, question };
}

function unanswered(plans: readonly Plan[], tools: readonly OfferedTool[]): string {
  const pending = plans.filter((plan): plan is CallPlan => plan.type === 'call' && plan.finding === undefined);
  const sentences =
    pending.length === 0
      ? []
      : [`I would ${intentionsOf(pending.map((plan) => askedBy(plan)))}, but I may not call a tool now.`];
  const unfit: string[] = [];
  for (const plan of plans) {
    if (plan.type === 'wait' || (plan.type === 'unfit' && plan.lacking === undefined))
      unfit.push(`“${plan.question.text}”`);
    if (plan.type !== 'unfit' || plan.lacking === undefined) continue;
    const { tool, names } = plan.lacking;
    sentences.push(
      `For “${plan.question.text}” I would use ${tool.name}, but I do not see what to give it as ${listed(names)}.`,
    );
  }
  if (unfit.length > 0) sentences.push(`I cannot answer ${listed(unfit)}. ${limits(tools)}`);
  return sentences.join(' ');
}

function limits(tools: readonly OfferedTool[]): string {
  if (tools.length === 0) return `${itself} No tool is offered to me here.`;
  return `${itself} What I am offered does not fit: ${listed(tools.map(({ name }) => name))}.`;
}

/** Short parts follow each other, a long one stands in a paragraph of its own. */
function paragraphs(parts: readonly string[]): string {
  const long = 140;
  return parts.reduce((text, part, index) => {
    const isShort = part.length < long && (parts[index - 1]?.length ?? 0) < long;
    return `${text}${isShort ? ' ' : '\n\n'}${part}`;
  });
}
