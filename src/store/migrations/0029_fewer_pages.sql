-- Two indexes less to write for each message: lists of all folders are merged from those of each folder.
DROP INDEX threads_by_time;
DROP INDEX messages_by_date;
