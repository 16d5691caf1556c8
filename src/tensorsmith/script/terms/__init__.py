"""What a script is written with: functions that note what the parser makes statements of."""
