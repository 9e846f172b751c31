import { escapeAttribute } from './xml-text.ts';

/** The name of an entry of a list. */
export const itemName = 'item';

/** The element of a member whose name XML does not allow; it has the name as its attribute. */
export const entryName = 'entry';

/** The tags around the content of a member; `attributes` as they stand in the opening tag. */
export function tagsAround(member: string, attributes = ''): { readonly open: string; readonly close: string } {
  if (isElementName(member)) return { open: `<${member}${attributes}>`, close: `</${member}>` };
  return { open: `<${entryName} name="${escapeAttribute(member)}"${attributes}>`, close: `</${entryName}>` };
}

function isElementName(member: string): boolean {
  return /^[\p{L}_][\p{L}\p{N}_.-]*$/u.test(member);
}
