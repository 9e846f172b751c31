import { createRequire } from 'node:module';

interface Client {
  connect(): Promise<void>;
  query(
    text: string,
    values: readonly unknown[],
  ): Promise<{ readonly rows: readonly Readonly<Record<string, unknown>>[] }>;
  end(): Promise<void>;
}

const { Client }: { readonly Client: new (url: string) => Client } = createRequire(import.meta.url)('pg');

/** One statement past the store. */
export async function sql(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}
