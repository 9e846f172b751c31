export const postgresPrograms: string | undefined;
