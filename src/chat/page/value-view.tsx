import { useState } from 'preact/hooks';
import { visibleText } from '../../ui/visible-text.ts';
import { CopyButton } from './copy-button.tsx';

/** Longer values are cut until the user asks for the rest. Characters. */
const shownAtFirst = 4_000;
/** Longer strings are shown as they are. Characters. */
const longestParsed = 100_000;

/** Arguments or a result: JSON as text. */
export function Value({ label, value }: { readonly label: string; readonly value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  const text = textOf(value);
  const isLong = text.length > shownAtFirst && !isWhole;
  return (
    <figure class="value">
      <figcaption>
        <span>{label}</span>
        <CopyButton text={() => text} label={`Copy ${label.toLowerCase()}`} />
      </figcaption>
      <pre tabIndex={0} dir="auto">
        {visibleText(isLong ? text.slice(0, shownAtFirst) : text)}
      </pre>
      {isLong && (
        <button type="button" class="quiet small" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </figure>
  );
}

/** Results of tools are often JSON in a string. */
function textOf(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2) ?? 'nothing';
  if (!/^\s*[[{]/.test(value) || value.length > longestParsed) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
