import { useEffect, useState } from 'preact/hooks';

/** What the page shows, as its fragment has it: `#/task/<id>?tab=records`. */
export interface Place {
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string | undefined>>;
}

export function linkTo(path: readonly string[], query: Place['query'] = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
  return `#/${path.map(encodeURIComponent).join('/')}${search}`;
}

function placeNow(): Place {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter((part) => part !== '');
  return { path: parts.map(decoded), query: Object.fromEntries(new URLSearchParams(search)) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function goTo(path: readonly string[], query: Place['query'] = {}): void {
  location.hash = linkTo(path, query);
}

/** Without a step in the history. */
export function replacePlace({ path, query }: Place): void {
  history.replaceState(null, '', linkTo(path, query));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const read = () => setPlace(placeNow());
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  return place;
}
