import type { Random } from '../../crash/random.ts';

type Json = unknown;

/** A value of JSON that no protocol expects at most places. */
export function oddValue(random: Random): Json {
  const draw = random.pick<() => Json>([
    () => null,
    () => true,
    () => random.int(-3, 3),
    () => random.pick([-1, 0.5, 1e308, -0, 2 ** 31, 2 ** 53, 1e-300]),
    () => '',
    () => random.pick([' ', 'x', '0', 'null', 'TASK_STATE_WORKING', 'ROLE_AGENT', '../..', '%00', 'http://[::1', '{}']),
    () => oddText(random),
    () => 'a'.repeat(random.int(100, 3_000)),
    () => [],
    () => ({}),
    () => [oddText(random), null, {}],
    () => ({ [random.pick(['constructor', 'toString', 'length', '$case', 'kind', '', 'answers'])]: oddText(random) }),
    () => JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
    () => nested(random.int(5, 400), random.chance(0.5)),
  ]);
  return draw();
}

/** Characters that break parsers, logs and terminals. */
function oddText(random: Random): string {
  const pieces = [
    '\u0000',
    '\n',
    '\r\n',
    '\u001b[31m',
    '\ud800',
    '\u202e',
    '💥',
    '"',
    '\\',
    '<script>',
    '%s',
    'é',
    'data: x\n\n',
    'm',
    '-',
  ] as const;
  return Array.from({ length: random.int(1, 8) }, () => random.pick(pieces)).join('');
}

function nested(depth: number, isArray: boolean): Json {
  let value: Json = 'deep';
  for (let level = 0; level < depth; level++) value = isArray ? [value] : { data: value };
  return value;
}

/** A copy with some of its members replaced, left out, renamed, doubled or added. */
export function mutated(value: Json, random: Random): Json {
  let result = value;
  for (let change = random.int(1, 3); change > 0; change--) result = changed(result, random, 0.25);
  return result;
}

function changed(value: Json, random: Random, here: number): Json {
  if (random.chance(here) || typeof value !== 'object' || value === null) return oddValue(random);
  if (Array.isArray(value)) return changedArray(value, random);
  const members: [string, Json][] = Object.entries(value);
  const at = random.int(0, members.length - 1);
  const member = members[at];
  if (!member) return { [oddText(random)]: oddValue(random) };
  switch (random.int(0, 7)) {
    case 0:
      return Object.fromEntries(members.filter((_, index) => index !== at));
    case 1:
      return Object.fromEntries([
        ...members,
        [random.pick(['extra', 'id', 'kind', oddText(random)]), oddValue(random)],
      ]);
    case 2:
      return Object.fromEntries(members.map(([name, each], index) => [index === at ? `${name}_` : name, each]));
    default:
      return Object.fromEntries(
        members.map(([name, each], index) => [name, index === at ? changed(each, random, 0.35) : each]),
      );
  }
}

function changedArray(value: readonly Json[], random: Random): Json {
  const at = random.int(0, value.length - 1);
  switch (random.int(0, 4)) {
    case 0:
      return value.filter((_, index) => index !== at);
    case 1:
      return [...value, oddValue(random)];
    case 2:
      return Array.from({ length: random.int(2, 150) }, () => value[at]);
    default:
      return value.map((each, index) => (index === at ? changed(each, random, 0.35) : each));
  }
}

/** A text with some of its characters cut, doubled or exchanged. */
export function mangled(text: string, random: Random): string {
  const at = random.int(0, text.length);
  switch (random.int(0, 3)) {
    case 0:
      return text.slice(0, at);
    case 1:
      return text.slice(0, at) + oddText(random) + text.slice(at);
    case 2:
      return text.slice(0, at) + text.slice(at + random.int(1, 5));
    default:
      return text + text.slice(at);
  }
}

/** The same of bytes. */
export function mangledBytes(bytes: Buffer, random: Random): Buffer {
  const at = random.int(0, bytes.length);
  const noise = () => Buffer.from(Array.from({ length: random.int(1, 12) }, () => random.int(0, 255)));
  switch (random.int(0, 4)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), noise(), bytes.subarray(at)]);
    case 2:
      return Buffer.concat([noise(), noise(), noise()]);
    case 3:
      return Buffer.concat([bytes, bytes]);
    default: {
      const copy = Buffer.from(bytes);
      for (let flip = random.int(1, 4); flip > 0 && copy.length > 0; flip--)
        copy[random.int(0, copy.length - 1)] = random.int(0, 255);
      return copy;
    }
  }
}

/** What a header may hold, and what no server expects in it. */
export function oddHeader(random: Random): string {
  return random.pick([
    '',
    '0',
    '-1',
    'x',
    '1.0',
    '0.3',
    '1.0.0',
    '9.9',
    'text/plain',
    'application/json; charset=utf-7',
    '*/*',
    'gzip',
    'a,b',
    '"',
    'x'.repeat(500),
    '12-1.2',
    '%',
    '\u00e9',
  ]);
}
