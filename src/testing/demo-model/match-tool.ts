import type { OfferedTool } from '../model-server/chat-request.ts';
import { type Arguments, argumentsFor } from './arguments-for.ts';
import type { Question, QuestionKind } from './questions-of.ts';
import { sameStems, stemsOf, wordsOf } from './words.ts';

/** A tool that answers a question, and what to call it with. */
export interface Match {
  readonly tool: OfferedTool;
  readonly arguments: Arguments;
}

/** Either a tool with all its arguments, or the best one that lacks some, or none. */
export interface MatchOutcome {
  readonly match?: Match;
  readonly lacking?: { readonly tool: OfferedTool; readonly names: readonly string[] };
}

type Purpose = Exclude<QuestionKind, 'other'>;

/** Words in a tool's name that say what it is for. */
const purposes: Readonly<Record<Purpose, ReadonlySet<string>>> = {
  calculate: sameStems('calculate calc math arithmetic evaluate compute expression'),
  time: sameStems('time clock date timezone now'),
  convert: sameStems('convert conversion exchange currency units rate'),
  search: sameStems('search grep find rg'),
  list: sameStems('list ls directory dir folder tree entries'),
  read: sameStems('read cat open view load'),
};
const kinds = ['calculate', 'time', 'convert', 'search', 'list', 'read'] as const;

/** Words in a tool's name that are no sign that a question means it. */
const generic = sameStems(
  'get set file list current tool data do run make create fetch info user new text value by all',
);

/** What a tool is for by its name; where its name says nothing, by its description. Empty where neither does. */
export function purposesOf(tool: OfferedTool): readonly Purpose[] {
  const byName = purposesIn(wordsOf(tool.name).map(stemsOf));
  return byName.length > 0 ? byName : purposesIn([stemsOf(tool.description)]);
}

function purposesIn(stems: readonly ReadonlySet<string>[]): readonly Purpose[] {
  return kinds.filter((kind) => stems.some((words) => [...words].some((stem) => purposes[kind].has(stem))));
}

/** The tool that fits a question best among those offered. */
export function matchTool(question: Question, tools: readonly OfferedTool[]): MatchOutcome {
  const fitting = tools
    .map((tool) => ({ tool, score: scoreOf(question, tool) }))
    .filter(({ score }) => score >= 3)
    .sort((a, b) => b.score - a.score)
    .map(({ tool }) => ({ tool, ...argumentsFor(question, tool.parameters) }));
  const match = fitting.find(({ missing }) => missing.length === 0);
  if (match !== undefined) return { match };
  const [best] = fitting;
  return best === undefined ? {} : { lacking: { tool: best.tool, names: best.missing } };
}

/** 4 for the same purpose by name, 3 by description; 5 for each telling word of the name that the question uses. */
function scoreOf(question: Question, tool: OfferedTool): number {
  const name = new Set(wordsOf(tool.name).flatMap((word) => [...stemsOf(word)]));
  const description = stemsOf(tool.description);
  const named = question.text.includes(tool.name) && tool.name.length > 3 ? 10 : 0;
  const shared = [...name].filter((stem) => !generic.has(stem) && question.stems.has(stem)).length * 5;
  const described = Math.min(3, [...description].filter((stem) => question.stems.has(stem)).length);
  const wording = described === 3 ? 3 : described * 0.5;
  return named + shared + wording + purposeScore(question, tool, name);
}

function purposeScore({ kind }: Question, tool: OfferedTool, name: ReadonlySet<string>): number {
  if (kind === 'other' || !purposesOf(tool).includes(kind)) return 0;
  return [...name].some((stem) => purposes[kind].has(stem)) ? 4 : 3;
}
