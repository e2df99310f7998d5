kara link experiment
