import type { Finding } from './conversation-of.ts';
import {
  entriesIn,
  filesIn,
  hitsIn,
  isCut,
  nameOfEntry,
  type Outcome,
  shortened,
  spoken,
  unwrapped,
} from './outcome-of.ts';
import type { Question, QuestionKind } from './questions-of.ts';
import { summaryOf } from './summary-of.ts';
import { counted, listed } from './words.ts';

/** One call: which tool, with what, and which question it is for. */
export interface Asked {
  readonly kind: QuestionKind;
  readonly name: string;
  readonly arguments: Finding['arguments'];
  /** Undefined where the call is not known to answer one. */
  readonly question: Question | undefined;
}

/** A call in words: `work out 12 * 7`. */
function intentionOf(asked: Asked): string {
  const { verb, object } = intentOf(asked);
  return object === '' ? verb : `${verb} ${object}`;
}

/** Several calls in words; what is done with several things is said once: `look up the time in Tokyo and Paris`. */
export function intentionsOf(calls: readonly Asked[]): string {
  const objects = new Map<string, string[]>();
  for (const { verb, object } of calls.map(intentOf)) objects.set(verb, [...(objects.get(verb) ?? []), object]);
  return listed([...objects].map(([verb, list]) => `${verb} ${listed(list)}`.trim()));
}

function intentOf(asked: Asked): { readonly verb: string; readonly object: string } {
  const subject = subjectOf(asked);
  const folder = asked.question?.facets.path;
  switch (asked.kind) {
    case 'calculate':
      return { verb: 'work out', object: subject };
    case 'time':
      return subject === ''
        ? { verb: 'look at', object: 'the clock' }
        : { verb: 'look up the time in', object: subject };
    case 'search':
      return { verb: folder === undefined ? 'search for' : `search ${folder} for`, object: subject };
    case 'list':
      return { verb: 'list', object: subject === '' || subject === '.' ? 'the files' : subject };
    case 'read':
      return { verb: 'read', object: subject };
    default:
      return { verb: `ask ${asked.name}${subject === '' ? '' : ' about'}`, object: subject };
  }
}

/** What came of a call, in whole sentences. */
export function sentencesFor(asked: Asked, outcome: Outcome): string {
  const subject = subjectOf(asked);
  if (outcome.error !== undefined) {
    return `I could not ${intentionOf(asked)}: ${asked.name} answered “${shortened(outcome.error, 300)}”.`;
  }
  switch (asked.kind) {
    case 'calculate':
      return calculated(subject, spoken(outcome.value));
    case 'time':
      return timeSaid(subject, zoneIn(asked), outcome);
    case 'convert':
      return converted(asked, outcome);
    case 'search':
      return searched(subject, outcome);
    case 'list':
      return listedFiles(subject, outcome);
    case 'read':
      return summaryOf(subject, outcome.value);
    default:
      return said(asked, outcome);
  }
}

/** What a call is about: what its question names, else what stands in its arguments. */
function subjectOf({ kind, arguments: given, question }: Asked): string {
  const values = Object.values(given).map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const { expression, place, pattern, path, email, identifier } = question?.facets ?? {};
  if (kind === 'time') return place ?? placeName(values[0] ?? '');
  if (kind === 'convert' || kind === 'other') {
    return shortened(place ?? email ?? identifier ?? values.join(', '), 80);
  }
  const named = { calculate: expression, search: pattern, list: path, read: path };
  return named[kind] ?? shortened(values[0] ?? '', 80);
}

function said({ name, question, ...asked }: Asked, outcome: Outcome): string {
  const topic =
    question === undefined
      ? `Asked ${intentionOf({ ...asked, name, question }).replace(/^ask \S+ ?/, '')}`
      : topicOf(question);
  const text = shortened(spoken(outcome.value), 600);
  return `${topic}, ${name} says: ${text}${/[.!?…]$/.test(text) ? '' : '.'}`;
}

function converted(asked: Asked, outcome: Outcome): string {
  const { amount, from, to } = asked.question?.facets ?? {};
  const result = unwrapped(outcome.value);
  if (amount === undefined || typeof result !== 'number') return said(asked, outcome);
  return `${amount} ${from} ${amount === 1 ? 'is' : 'are'} ${result} ${to}.`;
}

function calculated(expression: string, result: string): string {
  return result.includes('=') ? `${result}.` : `${expression} is ${result}.`;
}

function searched(pattern: string, outcome: Outcome): string {
  const files = filesIn(outcome);
  if (files.length === 0) {
    const entries = entriesIn(outcome);
    const isEmpty = entries.length === 0 || /^no\b|\bnot? (?:match|found)|^0\b/i.test(outcome.text);
    if (isEmpty) return `I found nothing that mentions ${pattern}.`;
    return `For ${pattern} the search says: ${spoken(entries.map(nameOfEntry))}.`;
  }
  const hits = hitsIn(outcome).length;
  const places = hits > files.length ? `, ${counted(hits, 'place')} in all` : '';
  const least = isCut(outcome) ? 'at least ' : '';
  return `${pattern} turns up in ${least}${counted(files.length, 'file')}${places}: ${listed(files, 6)}.`;
}

function listedFiles(folder: string, outcome: Outcome): string {
  const names = entriesIn(outcome).map(nameOfEntry);
  const where = folder === '' || folder === '.' ? 'The folder' : folder;
  if (names.length === 0 || /^the folder is empty|^\(?empty\)?\.?$|^no (?:files|entries)/i.test(outcome.text))
    return `${where} is empty.`;
  return `${where} holds ${isCut(outcome) ? 'at least ' : ''}${counted(names.length, 'entry')}: ${listed(names, 10)}.`;
}

/** `the weather in Paris` out of `What is the weather in Paris?`. */
function topicOf({ text }: Question): string {
  const topic = text
    .replace(/[?!.\s]+$/, '')
    .replace(
      /^(?:what(?:'s|s| is| are| was)|how (?:is|are)|who(?:'s| is)|tell me about|show me|get|give me|check)\s+/i,
      '',
    );
  return topic === text.replace(/[?!.\s]+$/, '') ? `On “${topic}”` : `As for ${topic}`;
}

const timestamp = /(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?/;

function timeSaid(place: string, zone: string, outcome: Outcome): string {
  const start = place === '' ? 'It is' : `In ${place} it is`;
  const match = timestamp.exec(outcome.text);
  return `${start} ${match === null ? spoken(outcome.value) : momentIn(match, zone)}.`;
}

function zoneIn({ arguments: given }: Asked): string {
  return Object.values(given).find((value) => typeof value === 'string') ?? '';
}

/** A timestamp as people say it: in its own offset, or in the zone where it is written in UTC. */
function momentIn(match: RegExpExecArray, zone: string): string {
  const [, year, month, day, hour, minute, offset] = match;
  const isForeign = offset === 'Z' && zone !== '' && !/^(?:utc|gmt)$/i.test(zone);
  const date = isForeign
    ? new Date(match[0].replace(' ', 'T'))
    : new Date(`${year}-${month}-${day}T${hour}:${minute}:00Z`);
  const timeZone = isForeign ? zone : 'UTC';
  try {
    const time = date.toLocaleTimeString('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
    const on = date.toLocaleDateString('en-GB', {
      timeZone,
      weekday: 'long',
      day: 'numeric',
      month: 'long',
      year: 'numeric',
    });
    return `${time} on ${on}`;
  } catch {
    return match[0];
  }
}

function placeName(zone: string): string {
  return (zone.split('/').at(-1) ?? zone).replaceAll('_', ' ');
}
