import type { JSONSchema } from '../../../core/contracts/index.ts';
import { type Shape, shapeOf } from './schema-shape.ts';
import { entryName, escapeAttribute, itemName, tagsAround } from './to-xml.ts';

/** Deeper than this a template is of no help, and a schema may be without end. */
const maxDepth = 8;

/**
 * An empty XML form of a JSON Schema for a model to fill in: one element for each property, its description as the
 * attribute `description`, with what values it takes where that is not any text. A list shows one `<item>`, an object of
 * free names one `<entry name="…">`. `parseXml` reads the filled form.
 */
export function xmlTemplate(jsonSchema: JSONSchema, rootName = 'output'): string {
  return linesOf(rootName, jsonSchema, { root: jsonSchema, depth: 0 }).join('\n');
}

interface Place {
  readonly root: JSONSchema;
  readonly depth: number;
}

function linesOf(name: string, schema: JSONSchema, { root, depth }: Place): readonly string[] {
  const shape = shapeOf(schema, root);
  const description = descriptionOf(shape);
  const { open, close } = tagsAround(name, description && ` description="${escapeAttribute(description)}"`);
  const children = depth < maxDepth ? childrenOf(shape) : [];
  const inside = children.flatMap(([child, each]) => linesOf(child, each, { root, depth: depth + 1 }));
  return inside.length === 0 ? [`${open}${close}`] : [open, ...inside.map((line) => `  ${line}`), close];
}

function childrenOf({ members, otherMembers, entries }: Shape): readonly (readonly [string, JSONSchema])[] {
  if (members && members.size > 0) return [...members];
  if (otherMembers) return [['…', otherMembers]];
  return entries ? [[itemName, entries]] : [];
}

function descriptionOf(shape: Shape): string {
  const values = valuesOf(shape);
  if (shape.description === undefined) return values;
  return values === '' ? shape.description : `${shape.description} (${values})`;
}

function valuesOf({ values, members, otherMembers, entries, scalars }: Shape): string {
  if (values) return `one of: ${values.map(String).join(', ')}`;
  if (members) return otherMembers && members.size === 0 ? `one ${entryName} element for each name` : '';
  if (entries) return `a list: one ${itemName} element for each entry`;
  if (scalars.has('string')) return '';
  if (scalars.has('number')) return 'a number';
  if (scalars.has('integer')) return 'a whole number';
  return scalars.has('boolean') ? 'true or false' : '';
}
