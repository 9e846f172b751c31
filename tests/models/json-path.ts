import { isRecord } from './is-record.ts';

/**
 * The values at a path of a JSON value, in order: `a.b`, `a[]` (each), `a[0]`, `a[k=v]`, `a[k!=v]`, `a[k]` (each where). A path that leads
 * nowhere gives none. A filter directly after a name selects among the members of an array; after another filter it narrows the selection.
 */
export function valuesAt(value: unknown, path: string): readonly unknown[] {
  let values: readonly unknown[] = [value];
  let afterName = false;
  for (const segment of path.match(/[^.[\]]+|\[[^\]]*\]/g) ?? []) {
    values = segment.startsWith('[') ? selected(values, segment.slice(1, -1), afterName) : membersOf(values, segment);
    afterName = !segment.startsWith('[');
  }
  return values;
}

function membersOf(values: readonly unknown[], name: string): readonly unknown[] {
  return values.filter(isRecord).flatMap((value) => (value[name] === undefined ? [] : [value[name]]));
}

function selected(values: readonly unknown[], selector: string, afterName: boolean): readonly unknown[] {
  const elements = values.flatMap((value) => (Array.isArray(value) ? value : []));
  if (selector === '') return elements;
  if (/^\d+$/.test(selector)) {
    const index = Number(selector);
    return values.flatMap((value) => (Array.isArray(value) && index in value ? [value[index]] : []));
  }
  const [, name = '', operator, wanted] = /^(\w+)(!?=)?(.*)$/.exec(selector) ?? [];
  return (afterName ? elements : values).filter((element) => {
    if (!isRecord(element)) return false;
    if (operator === '=') return element[name] === wanted;
    if (operator === '!=') return element[name] !== wanted;
    return element[name] !== undefined;
  });
}
