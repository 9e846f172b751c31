import { useState } from 'preact/hooks';
import { grouped } from './format.ts';
import { Button } from './parts.tsx';

const longText = 400;
const firstMembers = 100;

interface JsonProps {
  readonly value: unknown;
  readonly name?: string;
  /** Open from the beginning down to this depth. */
  readonly open?: number;
}

/** A value as a tree that opens member by member. Everything is text: nothing of it becomes markup. */
export function Json({ value, name, open = 1 }: JsonProps) {
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(firstMembers);
  const label = name === undefined ? null : <span class="key">{name}</span>;
  if (typeof value !== 'object' || value === null)
    return (
      <div class="json">
        {label} <Scalar value={value} />
      </div>
    );
  const members = Object.entries(value);
  const size = Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
  if (members.length === 0)
    return (
      <div class="json">
        {label} <span class="dim">{Array.isArray(value) ? '[]' : '{}'}</span>
      </div>
    );
  return (
    <div class="json">
      <Button class="twist" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {label} <span class="dim">{size}</span>
      </Button>
      {isOpen && (
        <div class="inner">
          {members.slice(0, most).map(([key, member]) => (
            <Json key={key} name={key} value={member} open={open - 1} />
          ))}
          {members.length > most && (
            <Button class="quiet" onClick={() => setMost(most + 10 * firstMembers)}>
              {members.length - most} more
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

function Scalar({ value }: { readonly value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value !== 'string') return <span class="scalar">{String(value)}</span>;
  if (value.length <= longText || isWhole) return <span class="text">{value}</span>;
  return (
    <>
      <span class="text">{value.slice(0, longText)}…</span>{' '}
      <Button class="quiet" onClick={() => setWhole(true)}>
        {grouped(value.length)} characters
      </Button>
    </>
  );
}
